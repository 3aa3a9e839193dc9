package route

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
)

// backendKey tells backends apart; port is a name or a number. Those of a Gateway's routes may differ by the Gateway, which policies tell of, and by the
// kind of route.
type backendKey struct {
	namespace, service, port string
	of                       *gateway
	kind                     string
}

// backend resolves what a path names. Where that is not possible the backend says why, and the requests are answered with 503.
func (w *work) backend(namespace string, b *networkingv1.IngressBackend, f *faults) *Backend {
	if b.Service == nil {
		problem := "the Ingress's backend is no Service"
		if b.Resource != nil {
			problem = fmt.Sprintf("the backend is a resource (%s %q): this controller serves Services alone", b.Resource.Kind, b.Resource.Name)
		}
		f.add(ReasonBackend, "%s", problem)
		return &Backend{Namespace: namespace, Problem: problem}
	}
	port := b.Service.Port.Name
	if port == "" {
		port = strconv.Itoa(int(b.Service.Port.Number))
	}
	key := backendKey{namespace: namespace, service: b.Service.Name, port: port}
	known := w.backends[key]
	if known == nil {
		known = w.resolve(key, b.Service.Port)
		w.backends[key] = known
	}
	if known.Problem != "" {
		f.add(known.reason, "%s", known.Problem)
	}
	return known
}

func (w *work) resolve(key backendKey, port networkingv1.ServiceBackendPort) *Backend {
	out := &Backend{Namespace: key.namespace, Service: key.service, Port: key.port}
	refuse := func(reason, format string, args ...any) *Backend {
		out.reason, out.Problem = reason, fmt.Sprintf(format, args...)
		return out
	}
	service, ok := w.objects.Service(key.namespace, key.service)
	if !ok {
		return refuse(ReasonService, "the Service %q does not exist", key.service)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return refuse(ReasonBackend, "the Service %q is of the type ExternalName: this controller serves the endpoints of Services alone", key.service)
	}
	n := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
		return port.Name != "" && p.Name == port.Name || port.Name == "" && p.Port == port.Number && tcp(p.Protocol)
	})
	if n < 0 {
		return refuse(ReasonPort, "the Service %q has no port %q over TCP", key.service, key.port)
	}
	p := service.Spec.Ports[n]
	if !tcp(p.Protocol) {
		return refuse(ReasonBackend, "the port %q of the Service %q is not TCP", key.port, key.service)
	}
	out.portName = p.Name
	out.Protocol = protocol(ptr.Deref(p.AppProtocol, ""))
	out.Sticky = service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP
	family := corev1.IPv4Protocol
	if len(service.Spec.IPFamilies) > 0 {
		family = service.Spec.IPFamilies[0]
	}
	for _, address := range rotation(w.objects.Slices(key.namespace, key.service), p.Name, family) {
		out.Endpoints = append(out.Endpoints, w.endpoint(address))
	}
	return out
}

func tcp(p corev1.Protocol) bool { return p == "" || p == corev1.ProtocolTCP }

// protocol reads a Service port's appProtocol. What is unknown, as names of protocols above HTTP, is HTTP.
func protocol(app string) Protocol {
	switch strings.ToLower(app) {
	case "kubernetes.io/h2c":
		return H2C
	case "https", "kubernetes.io/wss":
		return HTTPS
	}
	return HTTP
}

// endpoint returns the endpoint of an address, the same as in the table before.
func (w *work) endpoint(address netip.AddrPort) *Endpoint {
	known := cmp.Or(w.endpoints[address], w.builder.endpoints[address])
	if known == nil {
		known = &Endpoint{Address: address.String()}
	}
	w.endpoints[address] = known
	return known
}

// rotation lists the addresses that take requests for a port: those of the ready endpoints, or, without any, of those that still serve while they terminate.
// Where endpoints have addresses of both families, those of the Service's first one are taken.
func rotation(of []*discoveryv1.EndpointSlice, port string, family corev1.IPFamily) []netip.AddrPort {
	// By whether they are ready and of the family, best first.
	var found [4][]netip.AddrPort
	for _, slice := range of {
		for _, p := range slice.Ports {
			if ptr.Deref(p.Name, "") != port || p.Port == nil || !tcp(ptr.Deref(p.Protocol, corev1.ProtocolTCP)) {
				continue
			}
			for _, e := range slice.Endpoints {
				class := 0
				switch c := e.Conditions; {
				case ptr.Deref(c.Ready, true):
				case ptr.Deref(c.Serving, false) && ptr.Deref(c.Terminating, false):
					class = 2
				default:
					continue
				}
				if len(e.Addresses) == 0 {
					continue
				}
				// All addresses of an endpoint are the same endpoint: clients take the first.
				address, err := netip.ParseAddr(e.Addresses[0])
				if err != nil || forbidden(address) {
					continue
				}
				if address.Is4() != (family == corev1.IPv4Protocol) {
					class++
				}
				found[class] = append(found[class], netip.AddrPortFrom(address, uint16(*p.Port)))
			}
		}
	}
	for _, list := range found {
		if len(list) > 0 {
			slices.SortFunc(list, netip.AddrPort.Compare)
			return slices.Compact(list)
		}
	}
	return nil
}

// forbidden are addresses that lead to the proxy's own machine, or to what its network tells machines: whoever writes EndpointSlices must not reach them.
func forbidden(a netip.Addr) bool {
	return a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast()
}
