package controllers

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
)

// TestLoadBalancersAddress has a Service get an address and a node on the real API, and lose both with its type and with its end.
func TestLoadBalancersAddress(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "cloud", func(cfg *Config) { cfg.LoadBalancerCIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.64/26")} })
	readyNode(t, client, "node-1")
	create(t, client, object.Service, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "front"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: ptr.To(false), Selector: map[string]string{"app": "front"},
			Ports: []corev1.ServicePort{{Port: 80}},
		},
	})
	front := func(list []*corev1.Service) *corev1.Service {
		for _, s := range list {
			if s.Name == "front" {
				return s
			}
		}
		return nil
	}
	balanced := func(list []*corev1.Service) bool {
		s := front(list)
		return s != nil && len(s.Status.LoadBalancer.Ingress) == 1 && s.Status.LoadBalancer.Ingress[0].IP == "192.0.2.64" &&
			*s.Status.LoadBalancer.Ingress[0].IPMode == corev1.LoadBalancerIPModeVIP && s.Annotations[object.LoadBalancerNodeAnnotation] == "node-1" && len(s.Finalizers) == 1
	}
	services := object.For(client, object.Service)
	retype := func(to corev1.ServiceType) {
		t.Helper()
		for {
			s, err := services.Get(t.Context(), "default", "front")
			if err != nil {
				t.Fatal(err)
			}
			s.Spec.Type = to
			if to != corev1.ServiceTypeLoadBalancer {
				s.Spec.AllocateLoadBalancerNodePorts = nil
			}
			if _, err = services.Update(t.Context(), s); err == nil {
				return
			} else if !apierrors.IsConflict(err) {
				t.Fatal(err)
			}
		}
	}
	await(t, client, object.Service, "an address and a node", balanced)
	retype(corev1.ServiceTypeClusterIP)
	await(t, client, object.Service, "neither of them", func(list []*corev1.Service) bool {
		s := front(list)
		return len(s.Status.LoadBalancer.Ingress) == 0 && s.Annotations[object.LoadBalancerNodeAnnotation] == "" && len(s.Finalizers) == 0
	})
	retype(corev1.ServiceTypeLoadBalancer)
	s := front(await(t, client, object.Service, "both again", func(list []*corev1.Service) bool {
		s := front(list)
		return len(s.Status.LoadBalancer.Ingress) == 1 && s.Annotations[object.LoadBalancerNodeAnnotation] == "node-1"
	}))
	if err := services.Delete(t.Context(), "default", s.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, object.Service, "its end", func(list []*corev1.Service) bool { return front(list) == nil })
}
