package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestAutoscaler scales the example's Deployment, whose pods use thrice what they request, with what the cluster itself tells of their use.
func TestAutoscaler(t *testing.T) {
	c := setup(t)
	c.kubectl("apply", "-f", "../../examples/autoscaler.yaml")
	// A pod counts when it is ready and it has been seen for a whole window.
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
