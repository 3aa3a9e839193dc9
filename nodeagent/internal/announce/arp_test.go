package announce

import (
	"bytes"
	"net"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

var (
	here  = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	there = net.HardwareAddr{2, 0, 0, 0, 0, 2}
	mine  = netip.MustParseAddr("192.0.2.64")
	asker = netip.MustParseAddr("192.0.2.1")
)

func TestAnswer(t *testing.T) {
	t.Parallel()
	ours := func(a netip.Addr) bool { return a == mine }
	question := arp{op: opRequest, senderMAC: there, sender: asker, targetMAC: make(net.HardwareAddr, 6), target: mine}
	read, ok := parse(question.frame(broadcast))
	if !ok {
		t.Fatal("what was written is not read")
	}
	frame, ok := answer(read, here, ours)
	if !ok {
		t.Fatal("no answer")
	}
	reply, ok := parse(frame)
	if !ok || reply.op != opReply || reply.sender != mine || !bytes.Equal(reply.senderMAC, here) || reply.target != asker || !bytes.Equal(frame[:6], there) || !bytes.Equal(frame[6:12], here) {
		t.Errorf("reply %+v", reply)
	}
	other, gratuitous, answered := question, question, question
	other.target = asker.Next()
	gratuitous.sender = mine // somebody else tells that it has the address: that is no question
	answered.op = opReply
	for what, m := range map[string]arp{"for another's": other, "gratuitous": gratuitous, "a reply": answered} {
		if _, ok := answer(m, here, ours); ok {
			t.Errorf("%s: answered", what)
		}
	}
}

func TestGratuitous(t *testing.T) {
	t.Parallel()
	for _, frame := range gratuitous(mine, here) {
		m, ok := parse(frame)
		if !ok || m.sender != mine || m.target != mine || !bytes.Equal(m.senderMAC, here) || !bytes.Equal(frame[:6], broadcast) {
			t.Errorf("frame %+v", m)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(gratuitous(mine, here)[0])
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if m, ok := parse(frame); ok {
			if again, ok := parse(m.frame(broadcast)); !ok || again.target != m.target || again.sender != m.sender || again.op != m.op {
				t.Errorf("%+v became %+v", m, again)
			}
		}
	})
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	ranges := []netip.Prefix{netip.MustParsePrefix("192.0.2.64/26"), netip.MustParsePrefix("fd00::40/122")}
	service := func(kind corev1.ServiceType, node string, ips ...string) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{object.LoadBalancerNodeAnnotation: node}}, Spec: corev1.ServiceSpec{Type: kind}}
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
		return s
	}
	for what, c := range map[string]struct {
		service *corev1.Service
		want    int
	}{
		"ours":                {service(corev1.ServiceTypeLoadBalancer, "n1", "192.0.2.64"), 1},
		"another node's":      {service(corev1.ServiceTypeLoadBalancer, "n2", "192.0.2.64"), 0},
		"nobody's":            {service(corev1.ServiceTypeLoadBalancer, "", "192.0.2.64"), 0},
		"no load balancer":    {service(corev1.ServiceTypeClusterIP, "n1", "192.0.2.64"), 0},
		"out of the range":    {service(corev1.ServiceTypeLoadBalancer, "n1", "192.0.2.10", "", "fd00::1", "192.0.2.70"), 1},
		"of both families":    {service(corev1.ServiceTypeLoadBalancer, "n1", "192.0.2.64", "fd00::64"), 2},
		"without any address": {service(corev1.ServiceTypeLoadBalancer, "n1"), 0},
	} {
		if got := Addresses(c.service, "n1", ranges); len(got) != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
