package nodeauthz

import (
	"context"
	"slices"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/registry"
)

// Objects knows the newest state of objects.
type Objects interface {
	// Get fails with 404 where there is no such object.
	Get(ctx context.Context, group, resource, namespace, name string) (registry.Object, error)
	List(ctx context.Context, group, resource, namespace string) []registry.Object
}

// Pods finds relations by looking at the pods of a namespace. Node agents ask when they start a pod, which is seldom enough to
// need no index.
type Pods struct {
	Objects Objects
	// Fresh brings what is known up to date. It is called before a relation is denied: the pod may have been bound a moment ago.
	Fresh func(ctx context.Context) error
}

// Related implements Relations.
func (p Pods) Related(ctx context.Context, node, group, resource, namespace, name string) bool {
	if p.related(ctx, node, group, resource, namespace, name) {
		return true
	}
	return p.Fresh(ctx) == nil && p.related(ctx, node, group, resource, namespace, name)
}

func (p Pods) related(ctx context.Context, node, group, resource, namespace, name string) bool {
	switch resource {
	case "pods":
		obj, err := p.Objects.Get(ctx, "", "pods", namespace, name)
		pod, ok := obj.(*corev1.Pod)
		return ok && err == nil && pod.Spec.NodeName == node
	case "resourceslices":
		obj, err := p.Objects.Get(ctx, group, resource, "", name)
		slice, ok := obj.(*resourcev1.ResourceSlice)
		return err == nil && ok && slice.Spec.NodeName != nil && *slice.Spec.NodeName == node
	case "podcertificaterequests":
		obj, err := p.Objects.Get(ctx, group, resource, namespace, name)
		request, ok := obj.(*certificatesv1beta1.PodCertificateRequest)
		return err == nil && ok && string(request.Spec.NodeName) == node
	case "volumeattachments":
		obj, err := p.Objects.Get(ctx, group, resource, "", name)
		attachment, ok := obj.(*storagev1.VolumeAttachment)
		return err == nil && ok && attachment.Spec.NodeName == node
	case "persistentvolumes":
		obj, err := p.Objects.Get(ctx, "", resource, "", name)
		volume, ok := obj.(*corev1.PersistentVolume)
		if err == nil && ok && volume.Labels[object.LocalPathNodeLabel] == node {
			return true
		}
		return err == nil && ok && p.has(ctx, node, volume)
	case "secrets":
		return p.any(ctx, node, namespace, func(pod *corev1.Pod) bool { return refers(pod, resource, name) }) || p.byVolume(ctx, node, namespace, name)
	}
	return p.any(ctx, node, namespace, func(pod *corev1.Pod) bool { return refers(pod, resource, name) })
}

// any reports whether a pod of the namespace that is bound to the node does as asked.
func (p Pods) any(ctx context.Context, node, namespace string, does func(*corev1.Pod) bool) bool {
	return slices.ContainsFunc(p.Objects.List(ctx, "", "pods", namespace), func(obj registry.Object) bool {
		pod, ok := obj.(*corev1.Pod)
		return ok && pod.Spec.NodeName == node && does(pod)
	})
}

// byVolume reports whether the secret is one by means of which the node mounts a volume of a pod.
func (p Pods) byVolume(ctx context.Context, node, namespace, secret string) bool {
	return slices.ContainsFunc(p.Objects.List(ctx, "", "persistentvolumes", ""), func(obj registry.Object) bool {
		volume, ok := obj.(*corev1.PersistentVolume)
		return ok && mountedBy(volume, namespace, secret) && p.has(ctx, node, volume)
	})
}

// has reports whether a pod of the node has the claim that a volume is bound to.
func (p Pods) has(ctx context.Context, node string, volume *corev1.PersistentVolume) bool {
	claim := volume.Spec.ClaimRef
	return claim != nil && p.any(ctx, node, claim.Namespace, func(pod *corev1.Pod) bool { return refers(pod, "persistentvolumeclaims", claim.Name) })
}

// mountedBy reports whether a node needs the secret to mount the volume. Those by which a CSI driver's controller publishes or expands it are not for nodes.
func mountedBy(volume *corev1.PersistentVolume, namespace, secret string) bool {
	return slices.Contains(mountSecrets(volume), corev1.SecretReference{Namespace: namespace, Name: secret})
}

// mountSecrets are the secrets that nodes need of a volume. Where a source may leave the namespace out, it is the claim's.
func mountSecrets(volume *corev1.PersistentVolume) []corev1.SecretReference {
	var refs []corev1.SecretReference
	add := func(ref *corev1.SecretReference) {
		if ref != nil {
			refs = append(refs, *ref)
		}
	}
	byClaim := func(ref *corev1.SecretReference) {
		if ref == nil {
			return
		}
		full := *ref
		if full.Namespace == "" && volume.Spec.ClaimRef != nil {
			full.Namespace = volume.Spec.ClaimRef.Namespace
		}
		refs = append(refs, full)
	}
	switch source := &volume.Spec.PersistentVolumeSource; {
	case source.AzureFile != nil:
		byClaim(&corev1.SecretReference{Namespace: ptr.Deref(source.AzureFile.SecretNamespace, ""), Name: source.AzureFile.SecretName})
	case source.CephFS != nil:
		byClaim(source.CephFS.SecretRef)
	case source.Cinder != nil:
		add(source.Cinder.SecretRef)
	case source.FlexVolume != nil:
		byClaim(source.FlexVolume.SecretRef)
	case source.RBD != nil:
		byClaim(source.RBD.SecretRef)
	case source.ScaleIO != nil:
		byClaim(source.ScaleIO.SecretRef)
	case source.ISCSI != nil:
		byClaim(source.ISCSI.SecretRef)
	case source.StorageOS != nil && source.StorageOS.SecretRef != nil:
		add(&corev1.SecretReference{Namespace: source.StorageOS.SecretRef.Namespace, Name: source.StorageOS.SecretRef.Name})
	case source.CSI != nil:
		add(source.CSI.NodePublishSecretRef)
		add(source.CSI.NodeStageSecretRef)
		add(source.CSI.NodeExpandSecretRef)
	}
	return refs
}

// claimOf returns the name of the claim that a volume of the pod is, or "".
func claimOf(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

func refers(pod *corev1.Pod, resource, name string) bool {
	switch resource {
	case "secrets":
		return slices.Contains(podspec.SecretsOf(&pod.Spec), name)
	case "configmaps":
		return slices.Contains(podspec.ConfigMapsOf(&pod.Spec), name)
	case "persistentvolumeclaims":
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return claimOf(pod, &v) == name })
	case "serviceaccounts":
		return pod.Spec.ServiceAccountName == name
	case "resourceclaims":
		if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil && extended.ResourceClaimName == name {
			return true
		}
		return slices.ContainsFunc(pod.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool {
			claim, _, err := resourceclaim.Name(pod, &c)
			return err == nil && claim != nil && *claim == name
		})
	}
	return false
}
