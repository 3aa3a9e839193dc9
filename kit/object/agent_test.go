package object

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAgentPort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int32{"": 10250, "7443": 7443, "70000": 10250, "-1": 10250, "x": 10250} {
		node := &corev1.Node{}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
		if text != "" {
			node.Annotations = map[string]string{AgentPortAnnotation: text}
		}
		if got := AgentPort(node); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}
