package nodeauthz

import (
	"context"
	"slices"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"howdah.dev/kit/object"
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
		if err != nil || !ok || volume.Spec.ClaimRef == nil {
			return false
		}
		claim := volume.Spec.ClaimRef
		return p.any(ctx, node, claim.Namespace, func(pod *corev1.Pod) bool { return refers(pod, "persistentvolumeclaims", claim.Name) })
	case "secrets":
		return p.any(ctx, node, namespace, func(pod *corev1.Pod) bool { return refers(pod, resource, name) || p.byVolume(ctx, pod, name) })
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

// byVolume reports whether one of the pod's volumes is mounted by means of the secret.
func (p Pods) byVolume(ctx context.Context, pod *corev1.Pod, secret string) bool {
	for i := range pod.Spec.Volumes {
		name := claimOf(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		obj, err := p.Objects.Get(ctx, "", "persistentvolumeclaims", pod.Namespace, name)
		claim, ok := obj.(*corev1.PersistentVolumeClaim)
		if err != nil || !ok || claim.Spec.VolumeName == "" {
			continue
		}
		obj, err = p.Objects.Get(ctx, "", "persistentvolumes", "", claim.Spec.VolumeName)
		volume, ok := obj.(*corev1.PersistentVolume)
		if err != nil || !ok || volume.Spec.CSI == nil {
			continue
		}
		csi := volume.Spec.CSI
		for _, ref := range []*corev1.SecretReference{csi.NodePublishSecretRef, csi.NodeStageSecretRef, csi.NodeExpandSecretRef, csi.ControllerPublishSecretRef} {
			if ref != nil && ref.Name == secret && ref.Namespace == pod.Namespace {
				return true
			}
		}
	}
	return false
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
		for _, s := range pod.Spec.ImagePullSecrets {
			if s.Name == name {
				return true
			}
		}
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
	for i := range pod.Spec.Volumes {
		if volume(&pod.Spec.Volumes[i], resource, name) {
			return true
		}
	}
	for i := range pod.Spec.InitContainers {
		if environment(pod.Spec.InitContainers[i].Env, pod.Spec.InitContainers[i].EnvFrom, resource, name) {
			return true
		}
	}
	for i := range pod.Spec.Containers {
		if environment(pod.Spec.Containers[i].Env, pod.Spec.Containers[i].EnvFrom, resource, name) {
			return true
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if environment(pod.Spec.EphemeralContainers[i].Env, pod.Spec.EphemeralContainers[i].EnvFrom, resource, name) {
			return true
		}
	}
	return false
}

func volume(v *corev1.Volume, resource, name string) bool {
	if resource == "configmaps" {
		if v.ConfigMap != nil && v.ConfigMap.Name == name {
			return true
		}
	} else if v.Secret != nil && v.Secret.SecretName == name || v.CSI != nil && v.CSI.NodePublishSecretRef != nil && v.CSI.NodePublishSecretRef.Name == name {
		return true
	}
	if v.Projected == nil {
		return false
	}
	for _, s := range v.Projected.Sources {
		if resource == "configmaps" && s.ConfigMap != nil && s.ConfigMap.Name == name || resource == "secrets" && s.Secret != nil && s.Secret.Name == name {
			return true
		}
	}
	return false
}

func environment(env []corev1.EnvVar, from []corev1.EnvFromSource, resource, name string) bool {
	for _, e := range env {
		if e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.ConfigMapKeyRef; resource == "configmaps" && r != nil && r.Name == name {
			return true
		}
		if r := e.ValueFrom.SecretKeyRef; resource == "secrets" && r != nil && r.Name == name {
			return true
		}
	}
	for _, f := range from {
		if resource == "configmaps" && f.ConfigMapRef != nil && f.ConfigMapRef.Name == name || resource == "secrets" && f.SecretRef != nil && f.SecretRef.Name == name {
			return true
		}
	}
	return false
}
