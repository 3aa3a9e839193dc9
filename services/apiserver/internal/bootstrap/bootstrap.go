// Package bootstrap makes the objects that every cluster has. It may run in several apiservers at once, and again.
package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/itself"
)

// API is what bootstrap needs of the object service.
type API interface {
	Get(ctx context.Context, req *apiv1.GetRequest) (*apiv1.GetResponse, error)
	Create(ctx context.Context, req *apiv1.CreateRequest) (*apiv1.CreateResponse, error)
	Update(ctx context.Context, req *apiv1.UpdateRequest) (*apiv1.UpdateResponse, error)
	Patch(ctx context.Context, req *apiv1.PatchRequest) (*apiv1.PatchResponse, error)
}

// Config says what the cluster looks like.
type Config struct {
	API API
	// ServiceCIDRs are where the addresses of Services come from: one range, or one of each family.
	ServiceCIDRs []netip.Prefix
	// ServiceIP is the address of the service default/kubernetes.
	ServiceIP netip.Addr
	// Gateways are where that service leads, beside those that other API servers have registered. All are of one port.
	Gateways []netip.AddrPort
	// Registered are the gateways that API servers tell of in their Leases; nil where there are none.
	Registered func() []netip.AddrPort
	// Now is the clock.
	Now func() time.Time
	// Definitions are custom kinds that come with admission plugins.
	Definitions []*apiextensionsv1.CustomResourceDefinition
}

// name of the service, its endpoints and their slice.
const name = "kubernetes"

// namespaces are those of every cluster.
var namespaces = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}

// Run makes everything, again and again until it succeeds or ctx ends.
func Run(ctx context.Context, cfg Config) error {
	ctx = itself.Context(ctx)
	return untilDone(ctx, func() error { return once(ctx, cfg) })
}

func once(ctx context.Context, cfg Config) error {
	if err := kept(ctx, cfg); err != nil {
		return err
	}
	for _, d := range cfg.Definitions {
		if err := ensure(ctx, cfg.API, resource{"apiextensions.k8s.io", "v1", "customresourcedefinitions"}, d, nil); err != nil {
			return err
		}
	}
	for _, class := range priorityClasses() {
		if err := ensure(ctx, cfg.API, resource{"scheduling.k8s.io", "v1", "priorityclasses"}, class, nil); err != nil {
			return err
		}
	}
	if len(cfg.Gateways) == 0 {
		return nil
	}
	return lead(ctx, cfg, cfg.gateways())
}

// priorityClasses are those of the cluster's own pods, with Kubernetes' descriptions.
func priorityClasses() []*schedulingv1.PriorityClass {
	class := func(name string, value int32, description string) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, Description: description}
	}
	return []*schedulingv1.PriorityClass{
		class("system-node-critical", 2000001000, "Used for system critical pods that must not be moved from their current node."),
		class("system-cluster-critical", 2000000000, "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
	}
}

func service(cfg Config) *corev1.Service {
	target := int32(6443)
	if len(cfg.Gateways) > 0 {
		target = int32(cfg.Gateways[0].Port())
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault, Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: cfg.ServiceIP.String(), Type: corev1.ServiceTypeClusterIP, SessionAffinity: corev1.ServiceAffinityNone,
			IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack), // said, not defaulted: so its manager owns it
			Ports:          []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(target)}},
		},
	}
}

func endpoints(gateways []netip.AddrPort) *corev1.Endpoints {
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "https", Port: int32(gateways[0].Port()), Protocol: corev1.ProtocolTCP}}}
	for _, g := range gateways {
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: g.Addr().String()})
	}
	return &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault, Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"},
		},
		Subsets: []corev1.EndpointSubset{subset},
	}
}

func slice(gateways []netip.AddrPort) *discoveryv1.EndpointSlice {
	port, protocol, portName, ready := int32(gateways[0].Port()), corev1.ProtocolTCP, "https", true
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault, Labels: map[string]string{discoveryv1.LabelServiceName: name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &protocol}},
	}
	for _, g := range gateways {
		if g.Addr().Is6() {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{g.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return s
}

type resource struct{ group, version, resource string }

// ensure creates obj where it is absent and, where same is given and says that they differ, replaces it.
func ensure[T metav1.Object](ctx context.Context, api API, r resource, obj T, same func(old, obj T) bool) error {
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	got, err := api.Get(ctx, &apiv1.GetRequest{
		Group: r.group, Version: r.version, Resource: r.resource, Namespace: obj.GetNamespace(), Name: obj.GetName(),
	})
	if err != nil && apistatus.Of(err).Code == 404 {
		_, err = api.Create(ctx, &apiv1.CreateRequest{
			Group: r.group, Version: r.version, Resource: r.resource, Namespace: obj.GetNamespace(), Object: body,
		})
		if apierrors.IsAlreadyExists(err) { // another apiserver was first
			err = nil
		}
	}
	if err != nil || got == nil || same == nil {
		return wrap(err, r, obj)
	}
	var old T
	if err := json.Unmarshal(got.GetObject(), &old); err != nil {
		return wrap(err, r, obj)
	}
	if same(old, obj) {
		return nil
	}
	_, err = api.Update(ctx, &apiv1.UpdateRequest{
		Group: r.group, Version: r.version, Resource: r.resource, Namespace: obj.GetNamespace(), Name: obj.GetName(), Object: body,
	})
	return wrap(err, r, obj)
}

func wrap(err error, r resource, obj metav1.Object) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", r.resource, obj.GetName(), err)
}
