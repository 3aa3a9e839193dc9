package lb

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// A slice leaves its service's table when it is marked as one of a headless service, and comes back without the mark.
func TestSliceThatBecomesHeadlessLeavesTheTable(t *testing.T) {
	t.Parallel()
	in := newInputs(Node{Name: "node1"})
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{Name: "p", Port: 80}}},
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("p"), Port: ptr.To[int32](8080)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.77.1.2"}}},
	}
	marked := slice.DeepCopy()
	marked.Labels[corev1.IsHeadlessService] = ""
	in.update(svc, false)
	for _, step := range []struct {
		slice *discoveryv1.EndpointSlice
		want  int
	}{{slice, 1}, {marked, 0}, {slice, 1}} {
		if changed := in.update(step.slice, false); !slices.Contains(changed, serviceOwner("default", "web")) {
			t.Errorf("the service's table is not made anew: %v", changed)
		}
		table, _, _ := in.table(serviceOwner("default", "web"))
		entry, ok := table[Frontend{Address: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: corev1.ProtocolTCP, Scope: Socket}]
		if !ok {
			t.Fatalf("the service has no frontend: %v", table)
		}
		if len(entry.Backends) != step.want {
			t.Errorf("with labels %v the service leads to %d backends, not %d", step.slice.Labels, len(entry.Backends), step.want)
		}
	}
}
