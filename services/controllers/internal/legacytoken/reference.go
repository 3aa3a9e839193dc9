package legacytoken

import corev1 "k8s.io/api/core/v1"

// name is the namespace and name of a Secret.
type name struct{ namespace, name string }

// referenced returns the Secrets that pods have in whatever way: as volumes, in the environment, or to pull images. Pods that have ended
// count, too.
func referenced(pods []*corev1.Pod) map[name]bool {
	found := map[name]bool{}
	for _, pod := range pods {
		add := func(secret string) { found[name{pod.Namespace, secret}] = true }
		for _, ref := range pod.Spec.ImagePullSecrets {
			add(ref.Name)
		}
		for i := range pod.Spec.InitContainers {
			environment(pod.Spec.InitContainers[i].Env, pod.Spec.InitContainers[i].EnvFrom, add)
		}
		for i := range pod.Spec.Containers {
			environment(pod.Spec.Containers[i].Env, pod.Spec.Containers[i].EnvFrom, add)
		}
		for i := range pod.Spec.EphemeralContainers {
			environment(pod.Spec.EphemeralContainers[i].Env, pod.Spec.EphemeralContainers[i].EnvFrom, add)
		}
		for i := range pod.Spec.Volumes {
			volume(&pod.Spec.Volumes[i], add)
		}
	}
	return found
}

func environment(variables []corev1.EnvVar, sources []corev1.EnvFromSource, add func(string)) {
	for _, v := range variables {
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			add(v.ValueFrom.SecretKeyRef.Name)
		}
	}
	for _, s := range sources {
		if s.SecretRef != nil {
			add(s.SecretRef.Name)
		}
	}
}

func volume(v *corev1.Volume, add func(string)) {
	switch {
	case v.Secret != nil:
		add(v.Secret.SecretName)
	case v.AzureFile != nil:
		add(v.AzureFile.SecretName)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				add(source.Secret.Name)
			}
		}
	default:
		if ref := credentials(v); ref != nil {
			add(ref.Name)
		}
	}
}

// credentials returns the reference to the Secret by which a storage system is asked for the volume, or nil.
func credentials(v *corev1.Volume) *corev1.LocalObjectReference {
	switch {
	case v.CephFS != nil:
		return v.CephFS.SecretRef
	case v.Cinder != nil:
		return v.Cinder.SecretRef
	case v.FlexVolume != nil:
		return v.FlexVolume.SecretRef
	case v.RBD != nil:
		return v.RBD.SecretRef
	case v.ScaleIO != nil:
		return v.ScaleIO.SecretRef
	case v.ISCSI != nil:
		return v.ISCSI.SecretRef
	case v.StorageOS != nil:
		return v.StorageOS.SecretRef
	case v.CSI != nil:
		return v.CSI.NodePublishSecretRef
	}
	return nil
}
