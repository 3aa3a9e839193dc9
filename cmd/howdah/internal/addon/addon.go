// Package addon makes what a cluster has beside its control plane: the default classes of storage and Ingresses, the kinds of the Gateway API with its class, and the
// Service that leads pods to the cluster's DNS, which runs beside the control plane and not in a pod.
package addon

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/services/ingress"
)

// What is made where nothing else is said.
const (
	StorageClass = "local-path"
	IngressClass = "howdah"
	GatewayClass = "howdah"
)

// Config says what to make.
type Config struct {
	StorageClass string // the default class, whose volumes are folders of the nodes; empty makes none
	IngressClass string // empty makes none
	GatewayAPI   bool   // define the kinds where nobody has
	GatewayClass string // made where GatewayClasses are defined; empty makes none
	DNSAddress   string // of the DNS server; empty makes no Service kube-dns
	ClusterDNS   string // address of the Service kube-dns
}

// Ensure makes it. What is there stays as its owner has it, but for where the DNS server is.
func Ensure(ctx context.Context, client *object.Client, c Config) error {
	if err := ensureStorage(ctx, client, c.StorageClass); err != nil {
		return err
	}
	if err := ensureIngressClass(ctx, client, c.IngressClass); err != nil {
		return err
	}
	if err := ingress.EnsureGatewayAPI(ctx, client, c.GatewayAPI, c.GatewayClass); err != nil {
		return err
	}
	if c.DNSAddress == "" {
		return nil
	}
	return ensureDNS(ctx, client, c.ClusterDNS, c.DNSAddress)
}

// ensureStorage creates the class that claims have which name none. One that is there stays as it is: which class is the default is its owner's to say.
func ensureStorage(ctx context.Context, client *object.Client, name string) error {
	if name == "" {
		return nil
	}
	_, err := object.For(client, object.StorageClass).Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: object.LocalPathProvisioner, ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), AllowVolumeExpansion: ptr.To(true),
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the StorageClass %s: %w", name, err)
	}
	return nil
}

// ensureIngressClass creates the class of Ingresses that howdah's ingress controller serves. One that is there stays as it is, and so does a class that is the
// default already.
func ensureIngressClass(ctx context.Context, client *object.Client, name string) error {
	if name == "" {
		return nil
	}
	classes := object.For(client, object.IngressClass)
	there, _, err := classes.List(ctx, "", metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list IngressClasses: %w", err)
	}
	class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressClassSpec{Controller: ingress.Controller}}
	if !slices.ContainsFunc(there, func(c *networkingv1.IngressClass) bool {
		return c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true"
	}) {
		class.Annotations = map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}
	}
	if _, err := classes.Create(ctx, class); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the IngressClass %s: %w", name, err)
	}
	return nil
}

// dnsPorts are those of Kubernetes' own kube-dns Service.
var dnsPorts = []struct {
	name     string
	protocol corev1.Protocol
	port     int32
}{{"dns", corev1.ProtocolUDP, 53}, {"dns-tcp", corev1.ProtocolTCP, 53}, {"metrics", corev1.ProtocolTCP, 9153}}

func ensureDNS(ctx context.Context, client *object.Client, clusterIP, address string) error {
	labels := map[string]string{"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-dns", Labels: labels},
		Spec:       corev1.ServiceSpec{ClusterIP: clusterIP},
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: "kube-dns",
			Labels: map[string]string{discoveryv1.LabelServiceName: "kube-dns", discoveryv1.LabelManagedBy: "howdah-addons"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
	}
	for _, p := range dnsPorts {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: p.name, Protocol: p.protocol, Port: p.port, TargetPort: intstr.FromInt32(p.port)})
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: ptr.To(p.name), Protocol: ptr.To(p.protocol), Port: ptr.To(p.port)})
	}
	services := object.For(client, object.Service)
	// Creating it again would be refused for its address, which is taken by itself.
	if _, err := services.Get(ctx, service.Namespace, service.Name); apierrors.IsNotFound(err) {
		if _, err := services.Create(ctx, service); err != nil {
			return fmt.Errorf("create the Service kube-dns: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("read the Service kube-dns: %w", err)
	}
	endpoints := object.For(client, object.EndpointSlice)
	_, err := endpoints.Create(ctx, slice)
	if apierrors.IsAlreadyExists(err) {
		_, err = endpoints.Update(ctx, slice)
	}
	if err != nil {
		return fmt.Errorf("write the EndpointSlice kube-dns: %w", err)
	}
	return nil
}
