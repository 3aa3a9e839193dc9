package netpol

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

var sprintf = fmt.Sprintf

func labelled(p *corev1.Pod, key, value string) *corev1.Pod {
	out := p.DeepCopy()
	out.Labels = map[string]string{key: value}
	return out
}

func onHost(p *corev1.Pod) *corev1.Pod {
	out := p.DeepCopy()
	out.Spec.HostNetwork = true
	return out
}

func ended(p *corev1.Pod) *corev1.Pod {
	out := p.DeepCopy()
	out.Status.Phase = corev1.PodSucceeded
	return out
}

// from asks from one of the addresses of the machine outside.
func (n *node) from(address, target string, passes bool) {
	n.t.Helper()
	wait := patience
	if passes {
		wait = 5 * time.Second
	}
	var c net.Conn
	err := n.outside.Try(func() (err error) {
		d := net.Dialer{Timeout: wait, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		c, err = d.Dial("tcp", target)
		return err
	})
	if err == nil {
		defer c.Close()
		_, err = netnstest.Talk(c, wait)
	}
	timeout, ok := errors.AsType[net.Error](err)
	if passes != (err == nil) || err != nil && !(ok && timeout.Timeout()) {
		n.t.Errorf("from %s to %s: %v; want it to pass: %v\n%s", address, target, err, passes, n.dump())
	}
}

func withAddress(o any, a netip.Addr) *corev1.Pod {
	p := o.(*corev1.Pod)
	p.Status.PodIPs = []corev1.PodIP{{IP: a.String()}}
	return p
}
