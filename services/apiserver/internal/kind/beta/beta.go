// Package beta has the versions of kinds that were served before their stable
// one and that Kubernetes has removed since, or is about to.
package beta

import (
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1alpha2 "k8s.io/api/coordination/v1alpha2"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	nodev1 "k8s.io/api/node/v1"
	nodev1beta1 "k8s.io/api/node/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/kind/legacy"
	"howdah.dev/services/apiserver/internal/registry"
)

// Add gives the kinds their older versions.
func Add(kinds []*registry.Kind) []*registry.Kind {
	byKind := versions()
	for _, k := range kinds {
		k.Served = append(k.Served, byKind[k.GVK.GroupKind()]...)
	}
	return kinds
}

// lifecycle is what the types of versions that end tell of themselves.
type lifecycle interface {
	APILifecycleDeprecated() (major, minor int)
	APILifecycleRemoved() (major, minor int)
}

// same is the row of version gv, with the Go types T and L, of what is stored
// as S with fields of the same names.
func same[T, L, S any, P interface {
	*T
	registry.Object
	lifecycle
}, PL interface {
	*L
	runtime.Object
}, PS interface {
	*S
	registry.Object
}](gv, stored schema.GroupVersion) registry.Version {
	deprecated, removed := life(P(new(T)))
	v := legacy.Version[T, L, S, P, PL, PS](gv, stored, deprecated, removed, nil)
	v.Deprecated = told(P(new(T)), gv)
	return v
}

// lastMinor is the release of Kubernetes 1 that this API is of.
const lastMinor = 36

// told is the text for a version whose type says since when it is deprecated, and by what it is replaced.
func told(obj registry.Object, gv schema.GroupVersion) string {
	l := obj.(lifecycle)
	if major, minor := l.APILifecycleDeprecated(); major > 1 || minor > lastMinor {
		return ""
	}
	deprecated, removed := life(l)
	text := fmt.Sprintf("%s %s is deprecated in %s+, unavailable in %s+", gv, reflect.TypeOf(obj).Elem().Name(), deprecated, removed)
	if r, ok := obj.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		by := r.APILifecycleReplacement()
		text += fmt.Sprintf("; use %s %s", by.GroupVersion(), by.Kind)
	}
	return text
}

// life returns since when a version is deprecated, and since when removed.
func life(l lifecycle) (deprecated, removed string) {
	major, minor := l.APILifecycleDeprecated()
	deprecated = fmt.Sprintf("v%d.%d", major, minor)
	major, minor = l.APILifecycleRemoved()
	return deprecated, fmt.Sprintf("v%d.%d", major, minor)
}

// warning is the text for a version that is converted by hand.
func warning(obj registry.Object, gv, stored schema.GroupVersion) string {
	deprecated, removed := life(obj.(lifecycle))
	name := reflect.TypeOf(obj).Elem().Name()
	return fmt.Sprintf("%s %s is deprecated in %s+, unavailable in %s+; use %s %s", gv, name, deprecated, removed, stored, name)
}

func versions() map[schema.GroupKind][]registry.Version {
	networking := networkingv1.SchemeGroupVersion
	storage, oldStorage := storagev1.SchemeGroupVersion, storagev1beta1.SchemeGroupVersion
	rbac, oldRBAC := rbacv1.SchemeGroupVersion, rbacv1beta1.SchemeGroupVersion
	return map[schema.GroupKind][]registry.Version{
		{Group: "", Kind: "Event"}: {oldEvent()},
		{Group: "batch", Kind: "CronJob"}: {
			same[batchv1beta1.CronJob, batchv1beta1.CronJobList, batchv1.CronJob](batchv1beta1.SchemeGroupVersion, batchv1.SchemeGroupVersion),
		},
		{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: {request()},
		{Group: "coordination.k8s.io", Kind: "Lease"}: {
			same[coordinationv1beta1.Lease, coordinationv1beta1.LeaseList, coordinationv1.Lease](coordinationv1beta1.SchemeGroupVersion, coordinationv1.SchemeGroupVersion),
		},
		{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}: {
			same[admissionv1alpha1.MutatingAdmissionPolicy, admissionv1alpha1.MutatingAdmissionPolicyList, admissionv1.MutatingAdmissionPolicy](admissionv1alpha1.SchemeGroupVersion, admissionv1.SchemeGroupVersion),
		},
		{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"}: {
			same[admissionv1alpha1.MutatingAdmissionPolicyBinding, admissionv1alpha1.MutatingAdmissionPolicyBindingList, admissionv1.MutatingAdmissionPolicyBinding](admissionv1alpha1.SchemeGroupVersion, admissionv1.SchemeGroupVersion),
		},
		{Group: "coordination.k8s.io", Kind: "LeaseCandidate"}: {
			same[coordinationv1alpha2.LeaseCandidate, coordinationv1alpha2.LeaseCandidateList, coordinationv1beta1.LeaseCandidate](coordinationv1alpha2.SchemeGroupVersion, coordinationv1beta1.SchemeGroupVersion),
		},
		{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}: {
			same[certificatesv1alpha1.ClusterTrustBundle, certificatesv1alpha1.ClusterTrustBundleList, certificatesv1beta1.ClusterTrustBundle](certificatesv1alpha1.SchemeGroupVersion, certificatesv1beta1.SchemeGroupVersion),
		},
		{Group: "resource.k8s.io", Kind: "DeviceTaintRule"}: {
			same[resourcev1alpha3.DeviceTaintRule, resourcev1alpha3.DeviceTaintRuleList, resourcev1beta2.DeviceTaintRule](resourcev1alpha3.SchemeGroupVersion, newerDevice),
		},
		{Group: "discovery.k8s.io", Kind: "EndpointSlice"}: {slice()},
		{Group: "networking.k8s.io", Kind: "Ingress"}:      {ingress(), extensionsIngress()},
		{Group: "networking.k8s.io", Kind: "IngressClass"}: {
			same[networkingv1beta1.IngressClass, networkingv1beta1.IngressClassList, networkingv1.IngressClass](oldNetworking, networking),
		},
		{Group: "networking.k8s.io", Kind: "IPAddress"}: {
			same[networkingv1beta1.IPAddress, networkingv1beta1.IPAddressList, networkingv1.IPAddress](oldNetworking, networking),
		},
		{Group: "networking.k8s.io", Kind: "ServiceCIDR"}: {
			same[networkingv1beta1.ServiceCIDR, networkingv1beta1.ServiceCIDRList, networkingv1.ServiceCIDR](oldNetworking, networking),
		},
		{Group: "networking.k8s.io", Kind: "NetworkPolicy"}: {
			same[extensionsv1beta1.NetworkPolicy, extensionsv1beta1.NetworkPolicyList, networkingv1.NetworkPolicy](extensions, networking),
		},
		{Group: "node.k8s.io", Kind: "RuntimeClass"}: {
			same[nodev1beta1.RuntimeClass, nodev1beta1.RuntimeClassList, nodev1.RuntimeClass](nodev1beta1.SchemeGroupVersion, nodev1.SchemeGroupVersion),
		},
		{Group: "policy", Kind: "PodDisruptionBudget"}: {budget()},

		{Group: "resource.k8s.io", Kind: "DeviceClass"}:           deviceClasses(),
		{Group: "resource.k8s.io", Kind: "ResourceClaim"}:         resourceClaims(),
		{Group: "resource.k8s.io", Kind: "ResourceClaimTemplate"}: resourceClaimTemplates(),
		{Group: "resource.k8s.io", Kind: "ResourceSlice"}:         resourceSlices(),

		{Group: "rbac.authorization.k8s.io", Kind: "Role"}: {
			same[rbacv1beta1.Role, rbacv1beta1.RoleList, rbacv1.Role](oldRBAC, rbac),
		},
		{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}: {
			same[rbacv1beta1.RoleBinding, rbacv1beta1.RoleBindingList, rbacv1.RoleBinding](oldRBAC, rbac),
		},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}: {
			same[rbacv1beta1.ClusterRole, rbacv1beta1.ClusterRoleList, rbacv1.ClusterRole](oldRBAC, rbac),
		},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: {
			same[rbacv1beta1.ClusterRoleBinding, rbacv1beta1.ClusterRoleBindingList, rbacv1.ClusterRoleBinding](oldRBAC, rbac),
		},
		{Group: "scheduling.k8s.io", Kind: "PriorityClass"}: {
			same[schedulingv1beta1.PriorityClass, schedulingv1beta1.PriorityClassList, schedulingv1.PriorityClass](schedulingv1beta1.SchemeGroupVersion, schedulingv1.SchemeGroupVersion),
		},
		{Group: "storage.k8s.io", Kind: "StorageClass"}: {
			same[storagev1beta1.StorageClass, storagev1beta1.StorageClassList, storagev1.StorageClass](oldStorage, storage),
		},
		{Group: "storage.k8s.io", Kind: "VolumeAttachment"}: {
			same[storagev1beta1.VolumeAttachment, storagev1beta1.VolumeAttachmentList, storagev1.VolumeAttachment](oldStorage, storage),
		},
		{Group: "storage.k8s.io", Kind: "CSIDriver"}: {
			same[storagev1beta1.CSIDriver, storagev1beta1.CSIDriverList, storagev1.CSIDriver](oldStorage, storage),
		},
		{Group: "storage.k8s.io", Kind: "CSINode"}: {
			same[storagev1beta1.CSINode, storagev1beta1.CSINodeList, storagev1.CSINode](oldStorage, storage),
		},
		{Group: "storage.k8s.io", Kind: "CSIStorageCapacity"}: {
			same[storagev1beta1.CSIStorageCapacity, storagev1beta1.CSIStorageCapacityList, storagev1.CSIStorageCapacity](oldStorage, storage),
		},
		{Group: "storage.k8s.io", Kind: "VolumeAttributesClass"}: {
			same[storagev1beta1.VolumeAttributesClass, storagev1beta1.VolumeAttributesClassList, storagev1.VolumeAttributesClass](oldStorage, storage),
		},
	}
}
