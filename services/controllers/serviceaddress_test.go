package controllers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/servicecidr"
)

func named(list []*networkingv1.IPAddress, name string) *networkingv1.IPAddress {
	i := slices.IndexFunc(list, func(a *networkingv1.IPAddress) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return list[i]
}

// TestAddressesAreRepaired takes the IPAddress of a Service away, and makes one that refers to no Service: the first comes back, the other goes.
func TestAddressesAreRepaired(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "servicecidr,serviceaddress")
	s := create(t, client, object.Service, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	ip := s.Spec.ClusterIP
	first, err := object.For(client, servicecidr.AddressKind).Get(t.Context(), "", ip)
	if err != nil {
		t.Fatal(err)
	}
	if p := first.Spec.ParentRef; *p != (networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "web"}) {
		t.Errorf("the address is for %+v", p)
	}
	if err := object.For(client, servicecidr.AddressKind).Delete(t.Context(), "", ip, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, servicecidr.AddressKind, "the address again", func(list []*networkingv1.IPAddress) bool {
		a := named(list, ip)
		return a != nil && a.UID != first.UID && a.Spec.ParentRef.Name == "web"
	})
	modified := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.96.0.200", Labels: first.Labels}, Spec: networkingv1.IPAddressSpec{
		ParentRef: &networkingv1.ParentReference{Resource: "pods", Namespace: "default", Name: "web"},
	}}
	create(t, client, servicecidr.AddressKind, modified)
	await(t, client, servicecidr.AddressKind, "no address of a pod", func(list []*networkingv1.IPAddress) bool { return named(list, modified.Name) == nil })
	for _, reason := range []string{"ClusterIPNotAllocated", "IPAddressNotAllocated"} {
		await(t, client, object.Event, reason, func(list []*corev1.Event) bool {
			return slices.ContainsFunc(list, func(e *corev1.Event) bool { return e.Reason == reason })
		})
	}
	if err := object.For(client, object.Service).Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, servicecidr.AddressKind, "no address of a service that is gone", func(list []*networkingv1.IPAddress) bool { return named(list, ip) == nil })
}

// TestRangeInUseStays makes a second range, takes an address of it, and deletes it: it says why it stays.
func TestRangeInUseStays(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "servicecidr,serviceaddress")
	create(t, client, servicecidr.Kind, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.130.0.0/28"}}})
	condition := func(list []*networkingv1.ServiceCIDR, status metav1.ConditionStatus) bool {
		return slices.ContainsFunc(list, func(c *networkingv1.ServiceCIDR) bool {
			return c.Name == "more" && meta.IsStatusConditionPresentAndEqual(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady, status)
		})
	}
	await(t, client, servicecidr.Kind, "a range that is ready", func(list []*networkingv1.ServiceCIDR) bool { return condition(list, metav1.ConditionTrue) })
	ready, err := object.For(client, servicecidr.Kind).Get(t.Context(), "", "more")
	if err != nil || !slices.ContainsFunc(ready.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "service-cidr-controller" && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "status"
	}) {
		t.Errorf("whose the condition is: %v %v", ready.ManagedFields, err)
	}
	create(t, client, object.Service, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.130.0.5", Ports: []corev1.ServicePort{{Port: 80}},
	}})
	if err := object.For(client, servicecidr.Kind).Delete(t.Context(), "", "more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, servicecidr.Kind, "a range that waits", func(list []*networkingv1.ServiceCIDR) bool { return condition(list, metav1.ConditionFalse) })
}
