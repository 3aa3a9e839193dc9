package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestAutoscaler scales the example's Deployment, whose pods use thrice what they request, with what metrics-server tells of it.
func TestAutoscaler(t *testing.T) {
	importMetricsServer(t)
	c := setup(t)
	c.cluster("apply", "-f", "../../examples/metrics-server.yaml")
	t.Cleanup(func() { c.cluster("delete", "-f", "../../examples/metrics-server.yaml", "--wait=false") })
	c.cluster("-n", "kube-system", "rollout", "status", "deployment/metrics-server", "--timeout=150s")
	c.cluster("wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=180s")
	c.kubectl("apply", "-f", "../../examples/autoscaler.yaml")
	// A pod counts when it is ready and metrics-server has seen it for a whole window.
	c.await(5*time.Minute, "the most replicas", func() bool {
		out, err := c.try("get", "deployment", "burner", "-o", "jsonpath={.spec.replicas} {.status.readyReplicas}")
		return err == nil && out == "5 5"
	})
	out := c.kubectl("describe", "hpa", "burner")
	t.Logf("kubectl describe hpa:\n%s", out)
	told := strings.Join(strings.Fields(out), " ") // kubectl fills its columns up
	for _, want := range []string{
		"resource cpu on pods (as a percentage of request):", "/ 60%", "ScalingActive True ValidMetricFound",
		"SuccessfulRescale", "reason: cpu resource utilization (percentage of request) above target",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not told", want)
		}
	}
	if out := c.kubectl("get", "hpa", "burner"); !strings.Contains(out, "Deployment/burner") || !strings.Contains(out, "/60%") {
		t.Errorf("kubectl get hpa:\n%s", out)
	}
}
