package serviceaddress

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Unix(1000, 0)

func service(name string, ips ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: corev1.ServiceSpec{ClusterIPs: ips}}
	if len(ips) > 0 {
		s.Spec.ClusterIP = ips[0]
	}
	return s
}

func reserved(ip string, s *corev1.Service, age time.Duration) *networkingv1.IPAddress {
	a, _ := parse(ip)
	obj := Address(a, s)
	obj.CreationTimestamp = metav1.Time{Time: now.Add(-age)}
	return obj
}

func view(services []*corev1.Service, addresses ...*networkingv1.IPAddress) View {
	return View{
		Address: func(name string) *networkingv1.IPAddress {
			for _, a := range addresses {
				if a.Name == name {
					return a
				}
			}
			return nil
		},
		Service: func(_, name string) *corev1.Service {
			for _, s := range services {
				if s.Name == name {
					return s
				}
			}
			return nil
		},
		CIDRs: []*networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24", "fd00::/120"}}}},
	}
}

func TestForService(t *testing.T) {
	t.Parallel()
	a, b := service("a", "10.0.0.7", "fd00:0::7"), service("b", "10.0.0.7")
	four, six := reserved("10.0.0.7", a, 0), reserved("fd00::7", a, 0)
	other := reserved("10.0.0.7", service("gone"), 0)
	bare := reserved("10.0.0.7", a, 0)
	bare.Labels = nil
	external := service("a", "10.0.0.7")
	external.Spec.Type = corev1.ServiceTypeExternalName
	for name, test := range map[string]struct {
		service *corev1.Service
		view    View
		want    string
	}{
		"as it should be": {a, view(nil, four, six), ""},
		"missing":         {a, view(nil, four), "ClusterIPNotAllocated Cluster IP [IPv6]: fd00:0::7 is not allocated; repairing false true\n"},
		"another's":       {a, view(nil, other, six), "ClusterIPNotAllocated the ClusterIP [IPv4]: 10.0.0.7 for Service n/a has a wrong reference; repairing true true\n"},
		"two have it":     {b, view([]*corev1.Service{a, b}, four), "ClusterIPAlreadyAllocated Cluster IP [IPv4]:10.0.0.7 was assigned to multiple services; please recreate service false false\n"},
		"without labels":  {service("a", "10.0.0.7"), view(nil, bare), "ClusterIPNotAllocated the ClusterIP [IPv4]: 10.0.0.7 for Service n/a has incorrect labels; repairing true true\n"},
		"out of range":    {service("a", "10.1.0.7"), view(nil), "ClusterIPOutOfRange Cluster IP [IPv4]: 10.1.0.7 is not within any configured Service CIDR; please recreate service false false\n"},
		"no address":      {service("a", "x"), view(nil), "ClusterIPNotValid Cluster IP x is not a valid IP; please recreate service false false\n"},
		"headless":        {service("a", "None"), view(nil), ""},
		"external":        {external, view(nil), ""},
	} {
		got := ""
		for _, r := range test.view.ForService(test.service) {
			got += fmt.Sprintln(r.Reason, r.Message, r.Replace != nil, r.Create != nil)
		}
		if got != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestUnused(t *testing.T) {
	t.Parallel()
	a := service("a", "10.0.0.7")
	gone := service("gone")
	pod := reserved("10.0.0.7", a, 0)
	pod.Spec.ParentRef.Resource = "pods"
	foreign := reserved("10.0.0.9", gone, 2*grace)
	foreign.Labels = nil
	for name, test := range map[string]struct {
		address *networkingv1.IPAddress
		reason  string
		after   time.Duration
	}{
		"in use":          {reserved("10.0.0.7", a, grace), "", 0},
		"leaked":          {reserved("10.0.0.9", gone, grace), "IPAddressNotAllocated", 0},
		"leaked, young":   {reserved("10.0.0.9", gone, 20*time.Second), "IPAddressNotAllocated", 40 * time.Second},
		"of another":      {reserved("10.0.0.9", a, grace), "IPAddressWrongReference", 0},
		"of a pod":        {pod, "IPAddressNotAllocated", 0},
		"somebody else's": {foreign, "", 0},
	} {
		if reason, _, after := view([]*corev1.Service{a}).Unused(test.address, now); reason != test.reason || after != test.after {
			t.Errorf("%s: %q after %s", name, reason, after)
		}
	}
}

// A Service that has gone, or is another by now, is not given the addresses that went with it.
func TestStands(t *testing.T) {
	t.Parallel()
	read := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "1", ResourceVersion: "5"}}
	other, changed := read.DeepCopy(), read.DeepCopy()
	other.UID, changed.ResourceVersion = "2", "6"
	for name, test := range map[string]struct {
		now  *corev1.Service
		want bool
	}{"the same": {read.DeepCopy(), true}, "gone": {nil, false}, "another": {other, false}, "changed": {changed, false}} {
		v := View{Service: func(string, string) *corev1.Service { return test.now }}
		if got := v.Stands(read); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
