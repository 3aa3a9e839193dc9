package servicelb

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func balanced(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Annotations: map[string]string{"own": "1"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change  func(*corev1.Service)
		follows bool
		told    string
	}{
		"nothing":           {func(*corev1.Service) {}, false, "[]"},
		"a label":           {func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }, false, "[]"},
		"the selector":      {func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} }, false, "[]"},
		"a provider's note": {func(s *corev1.Service) { s.Annotations["own"] = "2" }, false, "[]"},
		"an annotation":     {func(s *corev1.Service) { s.Annotations["a"] = "b" }, true, "[]"},
		"a port":            {func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, true, "[]"},
		"the type":          {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }, true, "[{Type LoadBalancer -> ClusterIP}]"},
		"the address":       {func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.1" }, true, "[{LoadbalancerIP  -> 192.0.2.1}]"},
		"sources": {func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} }, true,
			"[{LoadBalancerSourceRanges [] -> [192.0.2.0/24]}]"},
		"an external address": {func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }, true, "[{ExternalIP Count: 0 -> 1}]"},
		"the policy": {func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = "Local"; s.Spec.HealthCheckNodePort = 30000 }, true,
			"[{ExternalTrafficPolicy  -> Local} {HealthCheckNodePort 0 -> 30000}]"},
	} {
		changed := balanced("s")
		c.change(changed)
		follows, told := compare(balanced("s"), changed, func(a string) bool { return a == "own" })
		if follows != c.follows || fmt.Sprint(told) != c.told {
			t.Errorf("%s: %v, %v", what, follows, told)
		}
	}
}

func TestEligible(t *testing.T) {
	t.Parallel()
	node := func(name string, change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		change(n)
		return n
	}
	all := []*corev1.Node{
		node("z", func(*corev1.Node) {}),
		node("cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		node("excluded", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""} }),
		node("leaving", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: toBeDeleted}} }),
		node("deleted", func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{} }),
	}
	if got := hosts(eligible(all)); got != "cordoned ,z " {
		t.Errorf("eligible are %s", got)
	}
}
