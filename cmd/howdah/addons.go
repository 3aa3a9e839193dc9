package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/kit/object"
	"howdah.dev/services/ingress"
)

// addonsCommand creates the objects that lead pods to the cluster's DNS,
// which runs beside the control plane and not in a pod, the class of
// volumes that are folders of the nodes, those of Ingresses and Gateways, and
// what machines need to become nodes.
func addonsCommand() *cobra.Command {
	r := &role{name: "addons"}
	var api, dnsAddress, clusterDNS, storageClass, ingressClass, gatewayClass string
	var gatewayAPI bool
	var timeout time.Duration
	var joining joiningFlags
	cmd := r.command("Create the Service of the cluster's DNS, the default classes of storage and Ingresses, that of Gateways with their definitions, and what machines join by", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		conn, err := r.dialAPI(api)
		if err != nil {
			return err
		}
		defer conn.Close()
		client := object.NewClient(conn, "howdah-addons")
		cluster, err := joining.cluster(r.identity, api, clusterDNS)
		if err != nil {
			return err
		}
		return untilDone(ctx, time.Second, func(ctx context.Context) error {
			if err := ensureStorage(ctx, client, storageClass); err != nil {
				return err
			}
			if err := ensureIngressClass(ctx, client, ingressClass); err != nil {
				return err
			}
			if err := ingress.EnsureGatewayAPI(ctx, client, gatewayAPI, gatewayClass); err != nil {
				return err
			}
			if cluster != nil {
				if err := bootstrap.Ensure(ctx, client, *cluster); err != nil {
					return err
				}
			}
			return ensureDNS(ctx, client, clusterDNS, dnsAddress)
		})
	})
	r.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&api, "apiserver", "dns:///apiserver:7443", "gRPC target of the apiservers")
	f.StringVar(&dnsAddress, "dns-address", "", "address of the DNS server")
	f.StringVar(&clusterDNS, "cluster-dns", "10.96.0.10", "cluster IP of the Service kube-dns")
	f.StringVar(&storageClass, "storage-class", "local-path", "name of the default StorageClass, whose volumes are folders of the nodes; empty makes none")
	f.StringVar(&ingressClass, "ingress-class", "howdah", "name of the IngressClass that howdah's ingress controller serves, the default one unless there is another; empty makes none")
	f.BoolVar(&gatewayAPI, "gateway-api", true, "define the kinds of the Gateway API, where nobody has defined any; those that are there stay as they are")
	f.StringVar(&gatewayClass, "gateway-class", "howdah", "name of the GatewayClass that howdah's ingress controller serves, made where GatewayClasses are defined; empty makes none")
	joining.flags(f)
	f.DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait for the apiserver")
	return cmd
}

// untilDone tries again until try succeeds, or ctx ends: then it returns why the last try failed. Any refusal may pass: beside an
// apiserver that is making the cluster's first objects, namespaces and the ranges of Services' addresses are not there yet.
func untilDone(ctx context.Context, period time.Duration, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, period, true, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		if err != nil && ctx.Err() == nil {
			last = err
			slog.InfoContext(ctx, "will be tried again", "err", err)
		}
		return err == nil, nil
	})
	if last != nil && err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
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
