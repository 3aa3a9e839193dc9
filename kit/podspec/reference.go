package podspec

import corev1 "k8s.io/api/core/v1"

// SecretsOf returns the names of the secrets that a pod refers to, pull secrets among them.
func SecretsOf(spec *corev1.PodSpec) []string {
	var names []string
	add := func(name string) {
		if name != "" {
			names = append(names, name)
		}
	}
	for _, s := range spec.ImagePullSecrets {
		add(s.Name)
	}
	everyContainer(spec, func(c *corev1.Container) {
		for _, e := range c.EnvFrom {
			if e.SecretRef != nil {
				add(e.SecretRef.Name)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				add(e.ValueFrom.SecretKeyRef.Name)
			}
		}
	})
	for i := range spec.Volumes {
		for _, name := range volumeSecrets(&spec.Volumes[i]) {
			add(name)
		}
	}
	return names
}

func volumeSecrets(v *corev1.Volume) []string {
	var names []string
	local := func(ref *corev1.LocalObjectReference) {
		if ref != nil {
			names = append(names, ref.Name)
		}
	}
	switch {
	case v.Secret != nil:
		names = append(names, v.Secret.SecretName)
	case v.AzureFile != nil:
		names = append(names, v.AzureFile.SecretName)
	case v.CephFS != nil:
		local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		local(v.FlexVolume.SecretRef)
	case v.RBD != nil:
		local(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		local(v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		local(v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		local(v.StorageOS.SecretRef)
	case v.CSI != nil:
		local(v.CSI.NodePublishSecretRef)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				names = append(names, source.Secret.Name)
			}
		}
	}
	return names
}

// ConfigMapsOf returns the names of the ConfigMaps that a pod refers to.
func ConfigMapsOf(spec *corev1.PodSpec) []string {
	var names []string
	everyContainer(spec, func(c *corev1.Container) {
		for _, e := range c.EnvFrom {
			if e.ConfigMapRef != nil {
				names = append(names, e.ConfigMapRef.Name)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				names = append(names, e.ValueFrom.ConfigMapKeyRef.Name)
			}
		}
	})
	for _, v := range spec.Volumes {
		if v.ConfigMap != nil {
			names = append(names, v.ConfigMap.Name)
		}
		if v.Projected != nil {
			for _, source := range v.Projected.Sources {
				if source.ConfigMap != nil {
					names = append(names, source.ConfigMap.Name)
				}
			}
		}
	}
	return names
}

// everyContainer calls f for the containers of all three sorts, which it must not change.
func everyContainer(spec *corev1.PodSpec, f func(c *corev1.Container)) {
	for i := range spec.InitContainers {
		f(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		f(&spec.Containers[i])
	}
	for i := range spec.EphemeralContainers {
		f((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

// Referred names the first sort of API object that a pod refers to, "" where there is none: a pod from a node's own manifest may refer to none.
func Referred(spec *corev1.PodSpec) string {
	switch {
	case spec.ServiceAccountName != "":
		return "a service account"
	case len(SecretsOf(spec)) > 0:
		return "secrets"
	case len(ConfigMapsOf(spec)) > 0:
		return "configmaps"
	case len(spec.ResourceClaims) > 0:
		return "resourceclaims"
	}
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			return "persistentvolumeclaims"
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.ClusterTrustBundle != nil {
				return "clustertrustbundles"
			}
			if source.PodCertificate != nil {
				return "podcertificates"
			}
		}
	}
	return ""
}
