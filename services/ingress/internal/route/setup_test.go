package route

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/pki"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world is what a test's Ingresses may name.
type world struct {
	services map[string]*corev1.Service
	slices   map[string][]*discoveryv1.EndpointSlice
	secrets  map[string]*corev1.Secret
	maps     map[string]*corev1.ConfigMap
	spaces   map[string]*corev1.Namespace
}

func newWorld() *world {
	return &world{map[string]*corev1.Service{}, map[string][]*discoveryv1.EndpointSlice{}, map[string]*corev1.Secret{}, map[string]*corev1.ConfigMap{}, map[string]*corev1.Namespace{}}
}

func (w *world) Service(namespace, name string) (*corev1.Service, bool) {
	s, ok := w.services[namespace+"/"+name]
	return s, ok
}

func (w *world) Slices(namespace, service string) []*discoveryv1.EndpointSlice {
	return w.slices[namespace+"/"+service]
}

func (w *world) Secret(namespace, name string) (*corev1.Secret, bool) {
	s, ok := w.secrets[namespace+"/"+name]
	return s, ok
}

func (w *world) ConfigMap(namespace, name string) (*corev1.ConfigMap, bool) {
	m, ok := w.maps[namespace+"/"+name]
	return m, ok
}

func (w *world) Namespace(name string) (*corev1.Namespace, bool) {
	n, ok := w.spaces[name]
	return n, ok
}

// lookup asks for a path by GET at the port of plain HTTP.
func lookup(t *Table, host, path string) *Route {
	return t.Find(&Query{Port: PlainPort, Host: host, Path: path, Method: http.MethodGet})
}

// service adds a Service with the port http (80) and ready endpoints.
func (w *world) service(namespace, name string, addresses ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	w.services[namespace+"/"+name] = s
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080)}}}
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	w.slices[namespace+"/"+name] = []*discoveryv1.EndpointSlice{slice}
	return s
}

// secret adds a certificate for hosts.
func (w *world) secret(t *testing.T, name string, hosts ...string) *corev1.Secret {
	t.Helper()
	authority, err := pki.NewAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	p, err := authority.Issue(pki.Subject{CommonName: name, Hosts: hosts}, now)
	if err != nil {
		t.Fatal(err)
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: "1"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: p.Certificate, corev1.TLSPrivateKeyKey: p.Key},
	}
	w.secrets["shop/"+name] = s
	return s
}

var mine = NewClasses([]*networkingv1.IngressClass{{ObjectMeta: metav1.ObjectMeta{Name: "howdah"}, Spec: networkingv1.IngressClassSpec{Controller: Controller}}}, Controller)

// age is how many minutes before now an Ingress was created.
func ingress(name string, age int, rules ...networkingv1.IngressRule) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(age) * time.Minute))},
		Spec:       networkingv1.IngressSpec{IngressClassName: ptr.To("howdah"), Rules: rules},
	}
}

func rule(host string, paths ...networkingv1.HTTPIngressPath) networkingv1.IngressRule {
	r := networkingv1.IngressRule{Host: host}
	if len(paths) > 0 {
		r.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: paths}
	}
	return r
}

func to(service, port string) *networkingv1.IngressBackend {
	b := &networkingv1.IngressServiceBackend{Name: service}
	if n, err := strconv.Atoi(port); err == nil {
		b.Port.Number = int32(n)
	} else {
		b.Port.Name = port
	}
	return &networkingv1.IngressBackend{Service: b}
}

func prefix(path, service string) networkingv1.HTTPIngressPath {
	return networkingv1.HTTPIngressPath{Path: path, PathType: ptr.To(networkingv1.PathTypePrefix), Backend: *to(service, "80")}
}

func exact(path, service string) networkingv1.HTTPIngressPath {
	return networkingv1.HTTPIngressPath{Path: path, PathType: ptr.To(networkingv1.PathTypeExact), Backend: *to(service, "80")}
}

// where names the service that a request goes to, "" for none.
func where(t *Table, host, path string) string {
	r := lookup(t, host, path)
	if r == nil {
		return ""
	}
	return r.Backend.Service
}

func texts(faults []Fault) []string {
	var out []string
	for _, f := range faults {
		out = append(out, fmt.Sprintf("%s %s: %s", f.Object.GetName(), f.Reason, f.Message))
	}
	return out
}
