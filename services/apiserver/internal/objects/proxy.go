package objects

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/proxy"

	"howdah.dev/kit/object"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/podnet"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/relay"
)

// Network reaches what listens in pods and on nodes.
type Network interface {
	// Dial connects to one of them.
	Dial(ctx context.Context, b podnet.Backend) (net.Conn, error)
}

// connectVerb is what a stream is authorized as. A method that is none of Kubernetes' has no verb, as there.
func connectVerb(open *apiv1.ConnectOpen) string {
	switch {
	case open.GetSubresource() == "proxy":
		return relay.Verbs[open.GetMethod()]
	case open.GetMethod() == http.MethodGet || open.GetMethod() == "":
		return "get"
	}
	return "create"
}

// destination is where a proxied request goes.
type destination struct {
	scheme  string
	backend podnet.Backend
	own     bool // the node's HTTPS endpoint, which knows this API server by its certificate
}

// proxy passes an HTTP request on to a pod, a service or a node: name is [scheme:]name[:port].
func (s *Server) proxy(ctx context.Context, r *request, caller relay.Caller, open *apiv1.ConnectOpen) error {
	if relay.Verbs[open.GetMethod()] == "" && open.GetMethod() != http.MethodOptions {
		return notAllowed()
	}
	scheme, name, port, ok := relay.Name(r.name)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid %s request %q", r.res.Kind.Singular, r.name))
	}
	if s.Network == nil {
		return apierrors.NewServiceUnavailable("this apiserver has no way to pods")
	}
	item, err := find(ctx, s.Cache, r.res.Kind, r.res.GroupResource(), r.namespace, name)
	if err != nil {
		return s.admitConnect(ctx, r, open, nil, err)
	}
	obj, err := item.Object()
	if err != nil {
		return err
	}
	if err := s.admitConnect(ctx, r, open, obj, nil); err != nil {
		return err
	}
	node, ok := obj.(*corev1.Node)
	own := ok && (port == "" || port == endpointPort(node))
	if own && !hasEndpoint(node) {
		address, err := s.nodeAddress(ctx, node.Name)
		if err != nil {
			return err
		}
		if lacksSlash(open) {
			return redirect(caller, open)
		}
		open.Name, open.Path = node.Name, "/"+strings.TrimPrefix(open.GetPath(), "/")
		return s.pipe(ctx, caller, open, address)
	}
	if own {
		port = endpointPort(node)
	}
	to, err := s.destination(ctx, r, obj, port)
	if err != nil {
		return err
	}
	if lacksSlash(open) {
		return redirect(caller, open)
	}
	switch {
	case own: // whatever scheme was named, as in Kubernetes
		to.scheme, to.own = "https", true
	case scheme == "":
		to.scheme = "http"
	default:
		to.scheme = scheme
	}
	return relay.Serve(ctx, caller, open, targetOf(to, open), s.transport(to, r), func(request *http.Request) {
		asAsked(open)(request)
		if to.own {
			propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(request.Header))
		}
	})
}

// lacksSlash reports whether a browser's relative links would lead past the proxy.
func lacksSlash(open *apiv1.ConnectOpen) bool {
	return open.GetPath() == "" && header(open, "Upgrade") == "" && (open.GetMethod() == http.MethodGet || open.GetMethod() == http.MethodHead)
}

// redirect leads to the same place with a slash behind.
func redirect(caller relay.Caller, open *apiv1.ConnectOpen) error {
	location := header(open, "X-Forwarded-Uri") + "/"
	if open.GetQuery() != "" {
		location += "?" + open.GetQuery()
	}
	return accept(caller, &apiv1.ConnectAccepted{Code: http.StatusMovedPermanently, Headers: []*apiv1.Header{{Name: "Location", Value: location}}})
}

// header is the first value of a header that is forwarded.
func header(open *apiv1.ConnectOpen, name string) string {
	for _, h := range open.GetHeaders() {
		if strings.EqualFold(h.GetName(), name) {
			return h.GetValue()
		}
	}
	return ""
}

// asAsked gives the target the host that the caller named, as Kubernetes does, and not where the caller came in.
func asAsked(open *apiv1.ConnectOpen) func(*http.Request) {
	return func(r *http.Request) {
		if host := header(open, "X-Forwarded-Host"); host != "" {
			r.Host = host
		}
		r.Header.Del("X-Forwarded-Host")
		r.Header.Del("X-Forwarded-Proto")
	}
}

// targetOf is the URL that is asked for. As in Kubernetes its path is clean: no dots, no empty parts, no escaped slash.
func targetOf(to destination, open *apiv1.ConnectOpen) *url.URL {
	asked := open.GetPath()
	if unescaped, err := url.PathUnescape(asked); err == nil {
		asked = unescaped
	}
	target := &url.URL{Scheme: to.scheme, Host: to.backend.Address, RawQuery: open.GetQuery(), Path: path.Clean("/" + asked)}
	if strings.HasSuffix(asked, "/") && target.Path != "/" {
		target.Path += "/"
	}
	return target
}

// transport makes one connection, for one request. Links and redirects in the answer are rewritten to lead through the proxy.
// As in Kubernetes, a pod's or service's certificate is not checked: it has no name that could be. That of a node's endpoint is.
func (s *Server) transport(to destination, r *request) http.RoundTripper {
	secure := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above
	if to.own {
		secure = s.NodeTLS
	}
	prefix := "/api/v1/"
	if r.namespace != "" {
		prefix += "namespaces/" + r.namespace + "/"
	}
	return &proxy.Transport{
		PathPrepend: prefix + r.res.Kind.Resource + "/" + r.name + "/proxy",
		RoundTripper: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, TLSHandshakeTimeout: dialTimeout,
			TLSClientConfig: secure,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, dialTimeout)
				defer cancel()
				return s.Network.Dial(ctx, to.backend)
			},
		},
	}
}

func (s *Server) destination(ctx context.Context, r *request, obj registry.Object, port string) (destination, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return podDestination(o, port)
	case *corev1.Service:
		return s.serviceDestination(ctx, r, o, port)
	case *corev1.Node:
		return nodeDestination(o, port)
	}
	return destination{}, apierrors.NewMethodNotSupported(r.res.GroupResource(), r.subresource)
}

// allowed refuses addresses that are no pod's and no node's: those of this machine, and those that lead to many or to none.
func allowed(address string) error {
	if ip := net.ParseIP(address); ip == nil || !ip.IsGlobalUnicast() {
		return apierrors.NewBadRequest("address not allowed")
	}
	return nil
}

func podDestination(pod *corev1.Pod, port string) (destination, error) {
	if err := allowed(pod.Status.PodIP); err != nil {
		return destination{}, err
	}
	number, err := podPort(pod, port)
	if err != nil {
		return destination{}, err
	}
	return destination{backend: podnet.Backend{Address: net.JoinHostPort(pod.Status.PodIP, number), Node: pod.Spec.NodeName}}, nil
}

// podPort is the port that was named or numbered, by default the first that a container has, or 80.
func podPort(pod *corev1.Pod, port string) (string, error) {
	if _, err := strconv.ParseUint(port, 10, 16); err == nil {
		return port, nil
	}
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if port == "" || p.Name == port {
				return strconv.Itoa(int(p.ContainerPort)), nil
			}
		}
	}
	if port == "" {
		return "80", nil
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("no port %q in pod %q", port, pod.Name))
}

// serviceDestination is one of the pods that a Service's Endpoints name. Others' addresses that stand there are not followed: who
// may write Endpoints would reach what only the control plane does.
func (s *Server) serviceDestination(ctx context.Context, r *request, service *corev1.Service, port string) (destination, error) {
	if number, err := strconv.Atoi(port); err == nil {
		i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == number })
		if i < 0 {
			return destination{}, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, service.Name))
		}
		port = service.Spec.Ports[i].Name
	}
	objects := Objects{Table: s.Table, Cache: s.Cache}
	obj, err := objects.Get(ctx, "", "endpoints", service.Namespace, service.Name)
	if apierrors.IsNotFound(err) {
		return destination{}, apierrors.NewNotFound(r.res.GroupResource(), service.Name)
	}
	if err != nil {
		return destination{}, err
	}
	endpoints, ok := obj.(*corev1.Endpoints)
	if !ok {
		return destination{}, fmt.Errorf("endpoints %s is a %T", service.Name, obj)
	}
	if len(endpoints.Subsets) == 0 {
		return destination{}, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service.Name))
	}
	backends := backendsOf(endpoints, port, func(a *corev1.EndpointAddress) bool { return isPod(ctx, objects, service.Namespace, a) })
	if len(backends) == 0 {
		return destination{}, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", r.name))
	}
	return destination{backend: backends[rand.IntN(len(backends))]}, nil
}

// backendsOf returns the ready addresses of a port that are good.
func backendsOf(endpoints *corev1.Endpoints, port string, good func(*corev1.EndpointAddress) bool) []podnet.Backend {
	var out []podnet.Backend
	for i := range endpoints.Subsets {
		subset := &endpoints.Subsets[i]
		p := slices.IndexFunc(subset.Ports, func(p corev1.EndpointPort) bool { return p.Name == port })
		if p < 0 {
			continue
		}
		for j := range subset.Addresses {
			a := &subset.Addresses[j]
			if !good(a) {
				continue
			}
			b := podnet.Backend{Address: net.JoinHostPort(a.IP, strconv.Itoa(int(subset.Ports[p].Port)))}
			if a.NodeName != nil {
				b.Node = *a.NodeName
			}
			out = append(out, b)
		}
	}
	return out
}

// isPod reports whether an address is that of the pod that it names, of this namespace.
func isPod(ctx context.Context, objects Objects, namespace string, a *corev1.EndpointAddress) bool {
	if a.TargetRef == nil || a.TargetRef.Namespace != namespace {
		return false
	}
	obj, err := objects.Get(ctx, "", "pods", namespace, a.TargetRef.Name)
	if err != nil {
		return false
	}
	pod, ok := obj.(*corev1.Pod)
	return ok && slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == a.IP })
}

// endpointPort is that of the node's HTTPS endpoint, or of its agent where there is none.
func endpointPort(node *corev1.Node) string {
	return strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))
}

// hasEndpoint reports whether the node has an HTTPS endpoint. One without answers over the node API.
func hasEndpoint(node *corev1.Node) bool {
	return node.Status.DaemonEndpoints.KubeletEndpoint.Port != object.AgentPort(node)
}

func nodeDestination(node *corev1.Node, port string) (destination, error) {
	if len(node.Status.Addresses) == 0 {
		return destination{}, noAddress(node)
	}
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range node.Status.Addresses {
			if a.Type != kind {
				continue
			}
			if err := allowed(a.Address); err != nil {
				return destination{}, err
			}
			return destination{backend: podnet.Backend{Address: net.JoinHostPort(a.Address, port), Node: node.Name}}, nil
		}
	}
	return destination{}, apierrors.NewServiceUnavailable(fmt.Sprintf("node %s has told no address", node.Name))
}
