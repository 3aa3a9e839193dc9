package netpol

import (
	"fmt"
	"net"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kinds "k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/intstr"
	netutils "k8s.io/utils/net"
)

// policy is a NetworkPolicy ready for use.
type policy struct {
	namespace, name string
	revision        int64
	selects         labels.Selector
	isolates        [2]bool
	rules           [2][]rule
}

// rule lets those who match one of its peers use one of its ports.
type rule struct {
	ports     []port // nil: all
	everybody bool
	blocks    []block
	pods      []*selection
}

// port is a range, or the name of a port of the pod that is dialled.
type port struct {
	Range
	name string
}

// block is an ipBlock.
type block struct {
	cidr   netip.Prefix
	except []netip.Prefix
}

// covers says whether all of a prefix is in the block.
func (b block) covers(p netip.Prefix) bool {
	if !within(b.cidr, p) {
		return false
	}
	for _, e := range b.except {
		if within(e, p) {
			return false
		}
	}
	return true
}

// within says whether all of inner is in outer.
func within(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// selection is some pods of the cluster: those that a selector matches in one namespace, or in those that another matches.
type selection struct {
	key        string          // equal for equal selections
	namespace  string          // if namespaces is nil
	namespaces labels.Selector // matched with the labels of namespaces
	pods       labels.Selector
	asks       label // that all its pods have; empty if no single one is asked for
}

// everyPodSelection is all pods of the cluster.
var everyPodSelection = newSelection("", labels.Everything(), labels.Everything())

func newSelection(namespace string, namespaces, pods labels.Selector) *selection {
	s := &selection{namespace: namespace, namespaces: namespaces, pods: pods}
	requirements, _ := pods.Requirements()
	for _, r := range requirements {
		if values := r.ValuesUnsorted(); len(values) == 1 && (r.Operator() == kinds.Equals || r.Operator() == kinds.DoubleEquals || r.Operator() == kinds.In) {
			s.asks = label{r.Key(), values[0]}
			break
		}
	}
	if namespaces != nil {
		s.key = fmt.Sprintf("namespaces(%s) pods(%s)", namespaces, pods)
	} else {
		s.key = fmt.Sprintf("namespace %s pods(%s)", namespace, pods)
	}
	return s
}

// matches says whether a pod is one of them; of are the labels of its namespace, nil if that is not known.
func (s *selection) matches(p *pod, of labels.Set) bool {
	if s.namespaces == nil {
		return p.namespace == s.namespace && s.pods.Matches(p.labels)
	}
	return of != nil && s.namespaces.Matches(of) && s.pods.Matches(p.labels)
}

// parsePolicy prepares a policy. What cannot be understood of a stored policy lets nobody pass, and is told.
func parsePolicy(o *networkingv1.NetworkPolicy) (*policy, []string) {
	p := &policy{namespace: o.Namespace, name: o.Name, revision: revision(o)}
	var problems []string
	note := func(err error) {
		if err != nil {
			problems = append(problems, err.Error())
		}
	}
	var err error
	p.selects, err = selectorOf(&o.Spec.PodSelector)
	note(err)
	for _, t := range o.Spec.PolicyTypes {
		p.isolates[Ingress] = p.isolates[Ingress] || t == networkingv1.PolicyTypeIngress
		p.isolates[Egress] = p.isolates[Egress] || t == networkingv1.PolicyTypeEgress
	}
	if len(o.Spec.PolicyTypes) == 0 { // the API fills them in
		p.isolates = [2]bool{Ingress: true, Egress: len(o.Spec.Egress) > 0}
	}
	add := func(d Direction, ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer) {
		if !p.isolates[d] {
			return
		}
		r := rule{everybody: len(peers) == 0}
		for i := range ports {
			r.ports = append(r.ports, parsePort(&ports[i]))
		}
		for i := range peers {
			note(r.addPeer(o.Namespace, &peers[i]))
		}
		p.rules[d] = append(p.rules[d], r)
	}
	for _, r := range o.Spec.Ingress {
		add(Ingress, r.Ports, r.From)
	}
	for _, r := range o.Spec.Egress {
		add(Egress, r.Ports, r.To)
	}
	return p, problems
}

// selectorOf makes a selector; one that is not valid selects nothing.
func selectorOf(s *metav1.LabelSelector) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing(), err
	}
	return selector, nil
}

func (r *rule) addPeer(namespace string, p *networkingv1.NetworkPolicyPeer) error {
	if p.IPBlock != nil {
		b, err := parseBlock(p.IPBlock)
		if err == nil {
			r.blocks = append(r.blocks, b)
		}
		return err
	}
	pods, namespaces := labels.Everything(), labels.Selector(nil)
	var err error
	if p.PodSelector != nil {
		if pods, err = selectorOf(p.PodSelector); err != nil {
			return err
		}
	}
	if p.NamespaceSelector != nil {
		if namespaces, err = selectorOf(p.NamespaceSelector); err != nil {
			return err
		}
	} else if p.PodSelector == nil {
		return nil // a peer of a kind that is not known: nobody
	}
	r.pods = append(r.pods, newSelection(namespace, namespaces, pods))
	return nil
}

func parseBlock(b *networkingv1.IPBlock) (block, error) {
	cidr, err := parsePrefix(b.CIDR)
	if err != nil {
		return block{}, err
	}
	out := block{cidr: cidr}
	for _, e := range b.Except {
		except, err := parsePrefix(e)
		if err != nil {
			return block{}, err
		}
		out.except = append(out.except, except)
	}
	return out, nil
}

// parsePrefix reads a network as the API does: with leading zeros, too. IPv4 in IPv6 comes out as IPv4.
func parsePrefix(s string) (netip.Prefix, error) {
	_, n, err := netutils.ParseCIDRSloppy(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	return prefixOf(n), nil
}

func prefixOf(n *net.IPNet) netip.Prefix {
	a, _ := netip.AddrFromSlice(n.IP)
	ones, size := n.Mask.Size()
	if plain := a.Unmap(); plain.Is4() && size == 128 && ones >= 96 {
		a, ones = plain, ones-96
	}
	return netip.PrefixFrom(a, ones).Masked()
}

func parsePort(p *networkingv1.NetworkPolicyPort) port {
	out := port{Range: Range{protocolTCP, 0, 65535}}
	if p.Protocol != nil {
		out.Protocol = protocolNumber(*p.Protocol)
	}
	switch {
	case p.Port == nil:
	case p.Port.Type == intstr.String:
		out.name = p.Port.StrVal
	default:
		out.First, out.Last = uint16(p.Port.IntVal), uint16(p.Port.IntVal)
		if p.EndPort != nil {
			out.Last = uint16(*p.EndPort)
		}
	}
	return out
}

func protocolNumber(p corev1.Protocol) uint8 {
	switch p {
	case corev1.ProtocolUDP:
		return protocolUDP
	case corev1.ProtocolSCTP:
		return protocolSCTP
	}
	return protocolTCP
}
