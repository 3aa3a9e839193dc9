package netpol

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/nodeagent/internal/lb"
	"howdah.dev/nodeagent/internal/route"
)

// balance runs the load balancer on the test's node, for what comes in by its uplink.
func (n *node) balance(objects ...any) *lb.Balancer {
	n.t.Helper()
	root := "/sys/fs/cgroup"
	var fs unix.Statfs_t
	if unix.Statfs(root+"/unified", &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC {
		root += "/unified"
	}
	cgroup := filepath.Join(root, fmt.Sprintf("howdah-netpol-test-%d-%d", os.Getpid(), counter.Add(1)))
	if err := os.Mkdir(cgroup, 0o755); err != nil {
		n.t.Fatalf("make a cgroup2 (root is needed): %v", err)
	}
	pins := filepath.Join(filepath.Dir(n.pins), "lb")
	b, err := lb.New(lb.Config{
		Node: lb.Node{Name: "node"}, LocalAddresses: route.LocalAddresses, Log: slog.New(slog.DiscardHandler),
		At: lb.Attachment{WithoutTCX: n.withoutTCX, Cgroup: cgroup, Uplinks: []string{"uplink"}, Pins: pins, NodeAddresses: []netip.Addr{netip.MustParseAddr(nodeAddress)}},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, o := range objects {
		b.Update(context.Background(), o)
	}
	b.Synced()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.ns.Try(func() error { return b.Run(ctx) }) }()
	n.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			n.t.Errorf("load balancer: %v", err)
		}
		var err error
		n.ns.Do(func() error { err = lb.Detach(pins); return nil })
		if err != nil {
			n.t.Errorf("clean up: %v", err)
		}
		if err := os.Remove(cgroup); err != nil {
			n.t.Errorf("remove cgroup: %v", err)
		}
	})
	select {
	case <-b.Ready():
	case <-time.After(time.Minute):
		n.t.Fatal("load balancer not ready after a minute")
	}
	return b
}

// Who asks a NodePort from outside keeps its address on the way to a pod of the node that it asks: policies tell clients apart by it.
func TestNodePortFromOutside(t *testing.T) {
	n := newNode(t)
	web := n.pod(podObject("default", "web", 2, map[string]string{"app": "web"}))
	web.Echo(t, "tcp", ":80", "web")
	n.elsewhere("198.51.100.7")
	n.elsewhere("203.0.113.7")
	n.balance(
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"},
				Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: corev1.ProtocolTCP}}},
		},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Port: new(int32(80)), Protocol: new(corev1.ProtocolTCP)}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.77.0.2"}, NodeName: new("node"), Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		})
	n.start(namespaceObject("default", nil))
	target := nodeAddress + ":30080"
	n.from("198.51.100.7", target, true)
	n.from("203.0.113.7", target, true)
	n.apply(policyObject(t, `{metadata: {name: outside}, spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 198.51.100.0/24}}], ports: [{port: 80}]}]}}`))
	n.from("198.51.100.7", target, true)
	n.from("203.0.113.7", target, false)
}

// Who dials a service over SCTP is judged as who dials its pods, whether policies or the load balancer came to the pods' interfaces first.
func TestServicesOverSCTP(t *testing.T) {
	for name, tt := range map[string]struct{ withoutTCX, policiesFirst bool }{
		"tcx, policies first":      {false, true},
		"tcx, load balancer first": {false, false},
		"tc, policies first":       {true, true},
		"tc, load balancer first":  {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.withoutTCX = tt.withoutTCX
			n.config = func(c *Config) { c.WithoutTCX = tt.withoutTCX }
			web := n.pod(podObject("default", "web", 2, map[string]string{"app": "web"}))
			client := n.pod(podObject("default", "client", 3, map[string]string{"app": "client"}))
			web.Echo(t, "sctp", "10.77.0.2:8132", "web")
			if tt.policiesFirst {
				n.start(namespaceObject("default", nil))
			}
			n.balanceSCTP(web, client)
			if !tt.policiesFirst {
				n.start(namespaceObject("default", nil))
			}
			ask := func(from *machine, want bool, when string) {
				t.Helper()
				wait := 20 * time.Second
				if !want {
					wait = patience
				}
				if name, err := from.Ask("sctp", "10.96.0.10:7000", wait); (err == nil && name == "web") != want {
					t.Errorf("%s: answered by %q, %v; want an answer: %v", when, name, err, want)
				}
			}
			ask(client, true, "no policy")
			ask(web, true, "the pod itself")
			n.apply(policyObject(t, `{metadata: {name: out}, spec: {podSelector: {matchLabels: {app: client}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 8132, protocol: SCTP}]}]}}`),
				policyObject(t, `{metadata: {name: in}, spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: client}}}], ports: [{port: 8132, protocol: SCTP}]}]}}`))
			ask(client, true, "the pod's port is let pass on both sides")
			n.apply(policyObject(t, `{metadata: {name: out}, spec: {podSelector: {matchLabels: {app: client}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 7000, protocol: SCTP}]}]}}`))
			ask(client, false, "the service's port alone is let pass")
		})
	}
}

// balanceSCTP has port 7000 of 10.96.0.10 in front of a pod's 8132.
func (n *node) balanceSCTP(web *machine, others ...*machine) {
	n.t.Helper()
	b := n.balance(
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sig"},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"},
				Ports: []corev1.ServicePort{{Port: 7000, Protocol: corev1.ProtocolSCTP}}},
		},
		&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "sig-1", Labels: map[string]string{discoveryv1.LabelServiceName: "sig"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Port: new(int32(8132)), Protocol: new(corev1.ProtocolSCTP)}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{web.object.Status.PodIPs[0].IP}, NodeName: new("node"), Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		})
	for _, m := range append(others, web) {
		ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
		if err := b.Join(ctx, linkOf(m.sandbox), false); err != nil {
			n.t.Errorf("join: %v", err)
		}
		cancel()
	}
}
