package objects

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/proxy"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/podnet"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/relay"
)

// Network reaches what listens in pods and on nodes.
type Network interface {
	// Backends are the ready endpoints of a Service's port.
	Backends(ctx context.Context, namespace, name string, port int32) ([]podnet.Backend, error)
	// Dial connects to one.
	Dial(ctx context.Context, b podnet.Backend) (net.Conn, error)
}

// proxyVerbs are what requests to a proxy are authorized as, by HTTP method.
var proxyVerbs = map[string]string{
	http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
	http.MethodDelete: "delete",
}

// connectVerb is what a stream is authorized as. A method that is none of Kubernetes' has no verb, as there.
func connectVerb(open *apiv1.ConnectOpen) string {
	switch {
	case open.GetSubresource() == "proxy":
		return proxyVerbs[open.GetMethod()]
	case open.GetMethod() == http.MethodGet || open.GetMethod() == "":
		return "get"
	}
	return "create"
}

// destination is where a proxied request goes.
type destination struct {
	scheme  string
	backend podnet.Backend
}

// proxy passes an HTTP request on to a pod, a service or a node: name is [scheme:]name[:port].
func (s *Server) proxy(ctx context.Context, r *request, caller relay.Caller, open *apiv1.ConnectOpen) error {
	scheme, name, port, ok := relay.Name(r.name)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid %s request %q", r.res.Kind.Singular, r.name))
	}
	if s.Network == nil {
		return apierrors.NewServiceUnavailable("this apiserver has no way to pods")
	}
	item, err := find(ctx, s.Cache, r.res.Kind, r.res.GroupResource(), r.namespace, name)
	if err != nil {
		return err
	}
	obj, err := item.Object()
	if err != nil {
		return err
	}
	attributes := &admission.Attributes{
		Operation: admission.Connect, Resource: r.res, Subresource: r.subresource, Namespace: r.namespace, Name: r.name, Old: obj, User: r.user,
		Query: open.GetQuery(), Path: open.GetPath(), Notes: r,
	}
	if err := s.Admission.Admit(ctx, attributes); err != nil {
		return err
	}
	if err := s.Admission.Validate(ctx, attributes); err != nil {
		return err
	}
	if node, ok := obj.(*corev1.Node); ok && (port == "" || port == agentPort(node)) {
		address, err := s.nodeAddress(ctx, node.Name)
		if err != nil {
			return err
		}
		open.Name = node.Name
		return s.pipe(ctx, caller, open, address)
	}
	to, err := s.destination(ctx, r, obj, port)
	if err != nil {
		return err
	}
	if to.scheme = scheme; scheme == "" {
		to.scheme = "http"
	}
	return relay.Serve(ctx, caller, open, targetOf(to, open), s.transport(to, r), nil)
}

func targetOf(to destination, open *apiv1.ConnectOpen) *url.URL {
	target := &url.URL{Scheme: to.scheme, Host: to.backend.Address, RawQuery: open.GetQuery()}
	if path, err := url.PathUnescape(open.GetPath()); err == nil {
		target.Path, target.RawPath = path, open.GetPath()
	} else {
		target.Path = open.GetPath()
	}
	return target
}

// transport makes one connection, for one request. Links and redirects in the answer are rewritten to lead through the proxy.
// As in Kubernetes, a pod's or service's certificate is not checked: it has no name that could be.
func (s *Server) transport(to destination, r *request) http.RoundTripper {
	prefix := "/api/v1/"
	if r.namespace != "" {
		prefix += "namespaces/" + r.namespace + "/"
	}
	return &proxy.Transport{
		PathPrepend: prefix + r.res.Kind.Resource + "/" + r.name + "/proxy",
		RoundTripper: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, TLSHandshakeTimeout: dialTimeout,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
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

func podDestination(pod *corev1.Pod, port string) (destination, error) {
	number, err := podPort(pod, port)
	if err != nil {
		return destination{}, err
	}
	if pod.Status.PodIP == "" {
		return destination{}, apierrors.NewBadRequest("address not allowed")
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

func (s *Server) serviceDestination(ctx context.Context, r *request, service *corev1.Service, port string) (destination, error) {
	none := apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", r.name))
	number := int32(-1)
	for _, p := range service.Spec.Ports {
		if p.Name == port || strconv.Itoa(int(p.Port)) == port || port == "" && len(service.Spec.Ports) == 1 {
			number = p.Port
			break
		}
	}
	if number < 0 {
		if _, err := strconv.Atoi(port); err == nil {
			return destination{}, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %s found for service %q", port, service.Name))
		}
		return destination{}, none
	}
	backends, err := s.Network.Backends(ctx, service.Namespace, service.Name, number)
	if err != nil || len(backends) == 0 {
		return destination{}, none
	}
	return destination{backend: backends[0]}, nil
}

// agentPort is that of the node's agent, which answers itself.
func agentPort(node *corev1.Node) string {
	return strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))
}

func nodeDestination(node *corev1.Node, port string) (destination, error) {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return destination{backend: podnet.Backend{Address: net.JoinHostPort(a.Address, port), Node: node.Name}}, nil
		}
	}
	return destination{}, apierrors.NewServiceUnavailable(fmt.Sprintf("node %s has told no address", node.Name))
}
