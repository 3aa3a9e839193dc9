package admit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPorts(t *testing.T) {
	t.Parallel()
	newPod := func(ports ...corev1.ContainerPort) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Ports: ports}}}}
	}
	initial := func(policy *corev1.ContainerRestartPolicy, ports ...corev1.ContainerPort) *corev1.Pod {
		p := newPod()
		p.Spec.InitContainers = []corev1.Container{{Name: "i", RestartPolicy: policy, Ports: ports}}
		return p
	}
	always := corev1.ContainerRestartPolicyAlways
	tcp := corev1.ContainerPort{HostPort: 80}
	for name, test := range map[string]struct {
		pod, other *corev1.Pod
		refused    bool
	}{
		"taken":                              {newPod(tcp), newPod(tcp), true},
		"another port":                       {newPod(tcp), newPod(corev1.ContainerPort{HostPort: 81}), false},
		"no host port":                       {newPod(corev1.ContainerPort{ContainerPort: 80}), newPod(tcp), false},
		"another protocol":                   {newPod(tcp), newPod(corev1.ContainerPort{HostPort: 80, Protocol: corev1.ProtocolUDP}), false},
		"the same, said and by default":      {newPod(tcp), newPod(corev1.ContainerPort{HostPort: 80, Protocol: corev1.ProtocolTCP}), true},
		"another address":                    {newPod(corev1.ContainerPort{HostPort: 80, HostIP: "10.0.0.1"}), newPod(corev1.ContainerPort{HostPort: 80, HostIP: "10.0.0.2"}), false},
		"one address of all":                 {newPod(corev1.ContainerPort{HostPort: 80, HostIP: "10.0.0.1"}), newPod(corev1.ContainerPort{HostPort: 80, HostIP: "0.0.0.0"}), true},
		"taken by a sidecar":                 {newPod(tcp), initial(&always, tcp), true},
		"an init container's have been free": {newPod(tcp), initial(nil, tcp), false},
	} {
		got := ports(test.pod, Site{Others: []*corev1.Pod{test.other}})
		if (got != nil) != test.refused {
			t.Errorf("%s: %+v", name, got)
		}
		if got != nil && (got.reason != "NodePorts" || got.message != "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
