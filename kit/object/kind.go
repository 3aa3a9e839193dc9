// Package object is the typed client of the object API: reads, writes,
// batches, and informers whose objects know the trace of their last change.
package object

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is a pointer to an API type.
type Object interface {
	runtime.Object
	metav1.Object
}

// Kind ties a Go type to its place in the API.
type Kind[T Object] struct {
	GVK        schema.GroupVersionKind
	Resource   string // lower-case plural
	Namespaced bool
	New        func() T
	// Remote says that an extension API server serves the kind. It is reached through the API; only kinds of metadata can be remote,
	// and what they are created and updated by is refused.
	Remote bool
	// Custom says that the kind has a definition, a CustomResourceDefinition: there is no protobuf form of such, and its objects are sent as JSON.
	Custom bool
}

// CustomKind is a kind that has a definition. Its resource is there once the definition is.
func CustomKind[T Object](gvk schema.GroupVersionKind, resource string, namespaced bool, new func() T) Kind[T] {
	return Kind[T]{GVK: gvk, Resource: resource, Namespaced: namespaced, New: new, Custom: true}
}

// GroupResource returns the kind's resource with its group.
func (k Kind[T]) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.GVK.Group, Resource: k.Resource}
}

func kindOf[T Object](group, version, kind, resource string, namespaced bool, new func() T) Kind[T] {
	return Kind[T]{GVK: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, Resource: resource, Namespaced: namespaced, New: new}
}

// The kinds that howdah's own services use.
var (
	Namespace                 = kindOf("", "v1", "Namespace", "namespaces", false, func() *corev1.Namespace { return &corev1.Namespace{} })
	Node                      = kindOf("", "v1", "Node", "nodes", false, func() *corev1.Node { return &corev1.Node{} })
	Pod                       = kindOf("", "v1", "Pod", "pods", true, func() *corev1.Pod { return &corev1.Pod{} })
	Service                   = kindOf("", "v1", "Service", "services", true, func() *corev1.Service { return &corev1.Service{} })
	Endpoints                 = kindOf("", "v1", "Endpoints", "endpoints", true, func() *corev1.Endpoints { return &corev1.Endpoints{} })
	ConfigMap                 = kindOf("", "v1", "ConfigMap", "configmaps", true, func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
	Secret                    = kindOf("", "v1", "Secret", "secrets", true, func() *corev1.Secret { return &corev1.Secret{} })
	ServiceAccount            = kindOf("", "v1", "ServiceAccount", "serviceaccounts", true, func() *corev1.ServiceAccount { return &corev1.ServiceAccount{} })
	Event                     = kindOf("", "v1", "Event", "events", true, func() *corev1.Event { return &corev1.Event{} })
	EventV1                   = kindOf("events.k8s.io", "v1", "Event", "events", true, func() *eventsv1.Event { return &eventsv1.Event{} })
	EndpointSlice             = kindOf("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true, func() *discoveryv1.EndpointSlice { return &discoveryv1.EndpointSlice{} })
	NetworkPolicy             = kindOf("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true, func() *networkingv1.NetworkPolicy { return &networkingv1.NetworkPolicy{} })
	Ingress                   = kindOf("networking.k8s.io", "v1", "Ingress", "ingresses", true, func() *networkingv1.Ingress { return &networkingv1.Ingress{} })
	IngressClass              = kindOf("networking.k8s.io", "v1", "IngressClass", "ingressclasses", false, func() *networkingv1.IngressClass { return &networkingv1.IngressClass{} })
	Lease                     = kindOf("coordination.k8s.io", "v1", "Lease", "leases", true, func() *coordinationv1.Lease { return &coordinationv1.Lease{} })
	Deployment                = kindOf("apps", "v1", "Deployment", "deployments", true, func() *appsv1.Deployment { return &appsv1.Deployment{} })
	ReplicationController     = kindOf("", "v1", "ReplicationController", "replicationcontrollers", true, func() *corev1.ReplicationController { return &corev1.ReplicationController{} })
	Job                       = kindOf("batch", "v1", "Job", "jobs", true, func() *batchv1.Job { return &batchv1.Job{} })
	CronJob                   = kindOf("batch", "v1", "CronJob", "cronjobs", true, func() *batchv1.CronJob { return &batchv1.CronJob{} })
	PodDisruptionBudget       = kindOf("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true, func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} })
	ReplicaSet                = kindOf("apps", "v1", "ReplicaSet", "replicasets", true, func() *appsv1.ReplicaSet { return &appsv1.ReplicaSet{} })
	StatefulSet               = kindOf("apps", "v1", "StatefulSet", "statefulsets", true, func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} })
	DaemonSet                 = kindOf("apps", "v1", "DaemonSet", "daemonsets", true, func() *appsv1.DaemonSet { return &appsv1.DaemonSet{} })
	ControllerRevision        = kindOf("apps", "v1", "ControllerRevision", "controllerrevisions", true, func() *appsv1.ControllerRevision { return &appsv1.ControllerRevision{} })
	PersistentVolumeClaim     = kindOf("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} })
	PersistentVolume          = kindOf("", "v1", "PersistentVolume", "persistentvolumes", false, func() *corev1.PersistentVolume { return &corev1.PersistentVolume{} })
	StorageClass              = kindOf("storage.k8s.io", "v1", "StorageClass", "storageclasses", false, func() *storagev1.StorageClass { return &storagev1.StorageClass{} })
	CSINode                   = kindOf("storage.k8s.io", "v1", "CSINode", "csinodes", false, func() *storagev1.CSINode { return &storagev1.CSINode{} })
	CSIDriver                 = kindOf("storage.k8s.io", "v1", "CSIDriver", "csidrivers", false, func() *storagev1.CSIDriver { return &storagev1.CSIDriver{} })
	CSIStorageCapacity        = kindOf("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", true, func() *storagev1.CSIStorageCapacity { return &storagev1.CSIStorageCapacity{} })
	ResourceClaim             = kindOf("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true, func() *resourcev1.ResourceClaim { return &resourcev1.ResourceClaim{} })
	ResourceSlice             = kindOf("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", false, func() *resourcev1.ResourceSlice { return &resourcev1.ResourceSlice{} })
	DeviceClass               = kindOf("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", false, func() *resourcev1.DeviceClass { return &resourcev1.DeviceClass{} })
	CertificateSigningRequest = kindOf("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", false, func() *certificatesv1.CertificateSigningRequest { return &certificatesv1.CertificateSigningRequest{} })
	PodCertificateRequest     = kindOf("certificates.k8s.io", "v1beta1", "PodCertificateRequest", "podcertificaterequests", true, func() *certificatesv1beta1.PodCertificateRequest { return &certificatesv1beta1.PodCertificateRequest{} })
	ClusterTrustBundle        = kindOf("certificates.k8s.io", "v1beta1", "ClusterTrustBundle", "clustertrustbundles", false, func() *certificatesv1beta1.ClusterTrustBundle { return &certificatesv1beta1.ClusterTrustBundle{} })
	RuntimeClass              = kindOf("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", false, func() *nodev1.RuntimeClass { return &nodev1.RuntimeClass{} })
	VolumeAttachment          = kindOf("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", false, func() *storagev1.VolumeAttachment { return &storagev1.VolumeAttachment{} })
)

// Metadata returns the kind of any resource read as metadata only; a garbage
// collector follows every kind with it.
func Metadata(gvk schema.GroupVersionKind, resource string, namespaced bool) Kind[*metav1.PartialObjectMetadata] {
	return Kind[*metav1.PartialObjectMetadata]{
		GVK: gvk, Resource: resource, Namespaced: namespaced, New: func() *metav1.PartialObjectMetadata { return &metav1.PartialObjectMetadata{} },
	}
}
