package netpol

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// naive says what the API's words say, without any preparation: whether a packet may pass for the policies of the pod's namespace.
type naive struct {
	pods       []*corev1.Pod
	namespaces map[string]*corev1.Namespace
	policies   []*networkingv1.NetworkPolicy
}

func (n naive) allows(self *corev1.Pod, d Direction, far netip.Addr, protocol corev1.Protocol, port int32) bool {
	isolated := false
	for _, p := range n.policies {
		if p.Namespace != self.Namespace || !matches(&p.Spec.PodSelector, self.Labels) {
			continue
		}
		kind := networkingv1.PolicyTypeIngress
		if d == Egress {
			kind = networkingv1.PolicyTypeEgress
		}
		if !slices.Contains(p.Spec.PolicyTypes, kind) {
			continue
		}
		isolated = true
		if d == Ingress {
			for _, r := range p.Spec.Ingress {
				if n.peersMatch(p.Namespace, r.From, far) && portsMatch(r.Ports, []*corev1.Pod{self}, protocol, port) {
					return true
				}
			}
			continue
		}
		for _, r := range p.Spec.Egress {
			for _, peer := range peersOrAll(r.To) {
				var dialled []*corev1.Pod
				for _, pod := range n.pods {
					if has(pod, far) && n.peerMatches(p.Namespace, peer, far, pod) {
						dialled = append(dialled, pod)
					}
				}
				if n.peersMatch(p.Namespace, peersOf(peer), far) && portsMatch(r.Ports, dialled, protocol, port) {
					return true
				}
			}
		}
	}
	return !isolated
}

func peersOrAll(peers []networkingv1.NetworkPolicyPeer) []*networkingv1.NetworkPolicyPeer {
	if len(peers) == 0 {
		return []*networkingv1.NetworkPolicyPeer{nil}
	}
	var out []*networkingv1.NetworkPolicyPeer
	for i := range peers {
		out = append(out, &peers[i])
	}
	return out
}

func peersOf(p *networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyPeer {
	if p == nil {
		return nil
	}
	return []networkingv1.NetworkPolicyPeer{*p}
}

func matches(s *metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(of))
}

func has(p *corev1.Pod, a netip.Addr) bool {
	if p.Spec.HostNetwork || p.Status.Phase != corev1.PodRunning {
		return false
	}
	return slices.ContainsFunc(p.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == a.String() })
}

func (n naive) peersMatch(namespace string, peers []networkingv1.NetworkPolicyPeer, far netip.Addr) bool {
	if len(peers) == 0 {
		return true
	}
	for i := range peers {
		if peers[i].IPBlock != nil && n.peerMatches(namespace, &peers[i], far, nil) {
			return true
		}
		for _, pod := range n.pods {
			if peers[i].IPBlock == nil && has(pod, far) && n.peerMatches(namespace, &peers[i], far, pod) {
				return true
			}
		}
	}
	return false
}

func (n naive) peerMatches(namespace string, peer *networkingv1.NetworkPolicyPeer, far netip.Addr, pod *corev1.Pod) bool {
	if peer == nil {
		return true
	}
	if b := peer.IPBlock; b != nil {
		for _, e := range b.Except {
			if netip.MustParsePrefix(e).Contains(far) {
				return false
			}
		}
		return netip.MustParsePrefix(b.CIDR).Contains(far)
	}
	if peer.NamespaceSelector == nil {
		return pod.Namespace == namespace && matches(peer.PodSelector, pod.Labels)
	}
	of := n.namespaces[pod.Namespace]
	return of != nil && matches(peer.NamespaceSelector, of.Labels) && (peer.PodSelector == nil || matches(peer.PodSelector, pod.Labels))
}

func portsMatch(ports []networkingv1.NetworkPolicyPort, dialled []*corev1.Pod, protocol corev1.Protocol, port int32) bool {
	if len(ports) == 0 {
		return true
	}
	for _, p := range ports {
		if *p.Protocol != protocol {
			continue
		}
		switch {
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			for _, pod := range dialled {
				for _, c := range pod.Spec.Containers {
					for _, have := range c.Ports {
						if have.Name == p.Port.StrVal && have.Protocol == protocol && have.ContainerPort == port {
							return true
						}
					}
				}
			}
		case p.EndPort != nil:
			if port >= p.Port.IntVal && port <= *p.EndPort {
				return true
			}
		case port == p.Port.IntVal:
			return true
		}
	}
	return false
}

var (
	someProtocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	someNames     = []string{"http", "sql"}
	someBlocks    = [][]string{
		{"0.0.0.0/0"}, {"0.0.0.0/0", "10.0.0.0/8"}, {"10.77.0.0/29"}, {"10.77.0.0/29", "10.77.0.2/32", "10.77.0.4/31"}, {"10.77.0.3/32"}, {"::/0"}, {"::/0", "fd00:77::/64"}, {"fd00:77::/125", "fd00:77::2/127"},
	}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func someLabels(r *rand.Rand) map[string]string {
	out := map[string]string{}
	for _, k := range []string{"app", "tier"} {
		if r.IntN(2) == 0 {
			out[k] = pick(r, []string{"x", "y"})
		}
	}
	return out
}

func someSelector(r *rand.Rand) *metav1.LabelSelector {
	switch r.IntN(4) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{pick(r, []string{"app", "tier"}): pick(r, []string{"x", "y"})}}
}

func somePod(r *rand.Rand, number int) *corev1.Pod {
	var ports []corev1.ContainerPort
	for range r.IntN(3) {
		ports = append(ports, corev1.ContainerPort{Name: pick(r, someNames), ContainerPort: 1 + r.Int32N(8), Protocol: pick(r, someProtocols)})
	}
	p := podObject(pick(r, []string{"one", "two"}), sprintf("p%d", number), number, someLabels(r), ports...)
	p.Spec.HostNetwork = r.IntN(8) == 0
	if r.IntN(8) == 0 {
		p.Status.Phase = corev1.PodFailed
	}
	return p
}

func somePorts(r *rand.Rand) []networkingv1.NetworkPolicyPort {
	var out []networkingv1.NetworkPolicyPort
	for range r.IntN(4) {
		p := networkingv1.NetworkPolicyPort{Protocol: new(pick(r, someProtocols))}
		switch r.IntN(4) {
		case 0:
		case 1:
			p.Port = new(intstr.FromString(pick(r, someNames)))
		case 2:
			first := 1 + r.Int32N(8)
			p.Port, p.EndPort = new(intstr.FromInt32(first)), new(first+r.Int32N(5))
		default:
			p.Port = new(intstr.FromInt32(1 + r.Int32N(8)))
		}
		out = append(out, p)
	}
	return out
}

func somePeers(r *rand.Rand) []networkingv1.NetworkPolicyPeer {
	var out []networkingv1.NetworkPolicyPeer
	for range r.IntN(3) {
		var p networkingv1.NetworkPolicyPeer
		switch r.IntN(4) {
		case 0:
			b := pick(r, someBlocks)
			p.IPBlock = &networkingv1.IPBlock{CIDR: b[0], Except: b[1:]}
		case 1:
			p.PodSelector = someSelector(r)
		case 2:
			p.NamespaceSelector = someSelector(r)
		default:
			p.PodSelector, p.NamespaceSelector = someSelector(r), someSelector(r)
		}
		out = append(out, p)
	}
	return out
}

func somePolicy(r *rand.Rand, number int) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: pick(r, []string{"one", "two"}), Name: sprintf("p%d", number)}}
	p.Spec.PodSelector = *someSelector(r)
	p.Spec.PolicyTypes = pick(r, [][]networkingv1.PolicyType{{networkingv1.PolicyTypeIngress}, {networkingv1.PolicyTypeEgress}, {networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}})
	for range r.IntN(3) {
		p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{Ports: somePorts(r), From: somePeers(r)})
		p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{Ports: somePorts(r), To: somePeers(r)})
	}
	return p
}

// What the tables say is what the API's words say, whatever comes and goes in whatever order.
func TestTablesSayWhatPoliciesSay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld()
		pods, policies, namespaces := map[string]*corev1.Pod{}, map[string]*networkingv1.NetworkPolicy{}, map[string]*corev1.Namespace{}
		for range 60 {
			gone := r.IntN(5) == 0
			switch r.IntN(5) {
			case 0, 1:
				p := somePod(r, 1+r.IntN(6))
				for _, other := range []string{"one", "two"} { // an address has one pod
					if old := pods[other+"/"+p.Name]; old != nil && other != p.Namespace {
						w.update(old, true)
						delete(pods, other+"/"+p.Name)
					}
				}
				w.update(p, gone)
				store(pods, p.Namespace+"/"+p.Name, p, gone)
			case 2, 3:
				p := somePolicy(r, r.IntN(4))
				w.update(p, gone)
				store(policies, p.Namespace+"/"+p.Name, p, gone)
			default:
				n := namespaceObject(pick(r, []string{"one", "two"}), someLabels(r))
				w.update(n, gone)
				store(namespaces, n.Name, n, gone)
			}
		}
		n := naive{namespaces: namespaces}
		for _, p := range pods {
			n.pods = append(n.pods, p)
		}
		for _, p := range policies {
			n.policies = append(n.policies, p)
		}
		for _, self := range n.pods {
			for _, d := range directions {
				key, g := w.groupOf(w.pods[types.NamespacedName{Namespace: self.Namespace, Name: self.Name}], d)
				if key != "" {
					g.fill(w)
				}
				for _, far := range farAddresses {
					for number, protocol := range map[uint8]corev1.Protocol{protocolTCP: corev1.ProtocolTCP, protocolUDP: corev1.ProtocolUDP, protocolSCTP: corev1.ProtocolSCTP} {
						for port := int32(0); port < 14; port++ {
							got := key == "" || g.table.allows(far, number, uint16(port))
							if want := n.allows(self, d, far, protocol, port); got != want {
								t.Fatalf("seed %d: %s of %s/%s, %s %s %d: %v, want %v\n%s", seed, d, self.Namespace, self.Name, far, protocol, port, got, want, g.table)
							}
						}
					}
				}
			}
		}
	}
}

func store[V any](m map[string]V, key string, value V, gone bool) {
	if gone {
		delete(m, key)
		return
	}
	m[key] = value
}

var farAddresses = func() []netip.Addr {
	var out []netip.Addr
	for i := range 9 {
		out = append(out, netip.MustParseAddr(sprintf("10.77.0.%d", i)), netip.MustParseAddr(sprintf("fd00:77::%d", i)))
	}
	return append(out, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("2001:db8::1"))
}()

// While a table is changed in place, every address has its old answer, and then its new one, with nothing between.
func TestChangesInPlaceHaveNothingBetween(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		table := func() Table {
			b := &builder{index: map[Range]int{}, pods: map[netip.Addr]Bits{}}
			ranges := []Range{{protocolTCP, 1, 1}, {protocolTCP, 2, 2}}
			b.bits(ranges...)
			for range r.IntN(6) {
				s := pick(r, someBlocks)
				g := grant{block{cidr: netip.MustParsePrefix(s[0])}, b.bits(pick(r, ranges))}
				for _, e := range s[1:] {
					g.except = append(g.except, netip.MustParsePrefix(e))
				}
				b.blocks = append(b.blocks, g)
			}
			for range r.IntN(6) {
				b.grantTo(pick(r, farAddresses), b.bits(pick(r, ranges)))
			}
			return b.table()
		}
		old, now := table(), table()
		live := Table{Peers: map[netip.Prefix]Bits{}, Ports: old.Ports}
		for p, bits := range old.Peers {
			live.Peers[p] = bits
		}
		changed := map[netip.Addr]bool{}
		for _, s := range difference(old.Peers, now.Peers) {
			if s.gone {
				delete(live.Peers, s.prefix)
			} else {
				live.Peers[s.prefix] = s.bits
			}
			for _, a := range farAddresses {
				switch got := kernelPeer(live, a); {
				case got == now.peer(a):
					changed[a] = true
				case got != old.peer(a) || changed[a]:
					t.Fatalf("seed %d: %s is answered %v at step %v, between %v and %v", seed, a, got, s, old.peer(a), now.peer(a))
				}
			}
		}
		for _, a := range farAddresses {
			if live.peer(a) != now.peer(a) || kernelPeer(live, a) != now.peer(a) {
				t.Fatalf("seed %d: %s is answered %v in the end, want %v", seed, a, live.peer(a), now.peer(a))
			}
		}
	}
}

// kernelPeer looks up as the kernel's trie does, where IPv4 is a part of IPv6.
func kernelPeer(t Table, a netip.Addr) Bits {
	best, bits := -1, Bits{}
	for p, b := range t.Peers {
		inside := p.Contains(a) || p.Addr().Is6() && p.Contains(netip.AddrFrom16(a.As16()))
		if inside && length(p) > best {
			best, bits = length(p), b
		}
	}
	return bits
}
