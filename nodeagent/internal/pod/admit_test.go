package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestAdmit(t *testing.T) {
	t.Parallel()
	started := &metav1.Time{Time: time.Unix(1000, 0)}
	newPod := func(uid string, age int64, ports ...corev1.ContainerPort) *corev1.Pod {
		p := testPod(corev1.RestartPolicyAlways, "a")
		p.UID, p.CreationTimestamp = types.UID(uid), metav1.Unix(1000-age, 0)
		p.Spec.Containers[0].Ports = ports
		return p
	}
	running := func(p *corev1.Pod) *corev1.Pod { p.Status.StartTime = started; return p }
	ended := func(p *corev1.Pod) *corev1.Pod { p.Status.Phase = corev1.PodFailed; return running(p) }
	sidecar := func(p *corev1.Pod) *corev1.Pod {
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: &always, Ports: p.Spec.Containers[0].Ports}}
		p.Spec.Containers[0].Ports = nil
		return p
	}
	tcp := corev1.ContainerPort{HostPort: 80}
	for name, test := range map[string]struct {
		pod, other *corev1.Pod
		refused    bool
	}{
		"taken":                              {newPod("b", 1, tcp), running(newPod("a", 2, tcp)), true},
		"taken by a younger one that runs":   {newPod("a", 2, tcp), running(newPod("b", 1, tcp)), true},
		"both are new, and this is younger":  {newPod("b", 1, tcp), newPod("a", 2, tcp), true},
		"both are new, and this is older":    {newPod("a", 2, tcp), newPod("b", 1, tcp), false},
		"of one age":                         {newPod("a", 1, tcp), newPod("b", 1, tcp), false},
		"of one age, the other way":          {newPod("b", 1, tcp), newPod("a", 1, tcp), true},
		"the other has ended":                {newPod("b", 1, tcp), ended(newPod("a", 2, tcp)), false},
		"itself":                             {newPod("a", 1, tcp), running(newPod("a", 1, tcp)), false},
		"another port":                       {newPod("b", 1, tcp), running(newPod("a", 2, corev1.ContainerPort{HostPort: 81})), false},
		"no host port":                       {newPod("b", 1, corev1.ContainerPort{ContainerPort: 80}), running(newPod("a", 2, tcp)), false},
		"another protocol":                   {newPod("b", 1, tcp), running(newPod("a", 2, corev1.ContainerPort{HostPort: 80, Protocol: corev1.ProtocolUDP})), false},
		"the same, said and by default":      {newPod("b", 1, tcp), running(newPod("a", 2, corev1.ContainerPort{HostPort: 80, Protocol: corev1.ProtocolTCP})), true},
		"another address":                    {newPod("b", 1, corev1.ContainerPort{HostPort: 80, HostIP: "10.0.0.1"}), running(newPod("a", 2, corev1.ContainerPort{HostPort: 80, HostIP: "10.0.0.2"})), false},
		"one address of all":                 {newPod("b", 1, corev1.ContainerPort{HostPort: 80, HostIP: "10.0.0.1"}), running(newPod("a", 2, corev1.ContainerPort{HostPort: 80, HostIP: "0.0.0.0"})), true},
		"taken by a sidecar":                 {newPod("b", 1, tcp), running(sidecar(newPod("a", 2, tcp))), true},
		"an init container's have been free": {newPod("b", 1, tcp), running(initOnly(sidecar(newPod("a", 2, tcp)))), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Admit(test.pod, []*corev1.Pod{test.other})
			if (got != nil) != test.refused {
				t.Fatalf("%+v", got)
			}
			if got != nil && (got.Reason != "NodePorts" || !got.Rejected) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// initOnly makes an ordinary init container of a sidecar.
func initOnly(p *corev1.Pod) *corev1.Pod {
	p.Spec.InitContainers[0].RestartPolicy = nil
	return p
}
