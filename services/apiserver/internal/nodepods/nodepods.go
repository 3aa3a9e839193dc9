// Package nodepods tells which secrets, config maps and claims the pods of a node refer to.
package nodepods

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

// Objects lists what is known of a kind in a namespace.
type Objects interface {
	List(group, resource, namespace string) []registry.Object
}

// Pods looks at the pods of one namespace for each question. Node agents ask when they start a pod, which is seldom enough to
// need no index.
type Pods struct{ Objects Objects }

// Uses implements authz.Pods.
func (p Pods) Uses(node, resource, namespace, name string) bool {
	for _, obj := range p.Objects.List("", "pods", namespace) {
		pod, ok := obj.(*corev1.Pod)
		if ok && pod.Spec.NodeName == node && refers(pod, resource, name) {
			return true
		}
	}
	return false
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
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name || v.Ephemeral != nil && pod.Name+"-"+v.Name == name {
				return true
			}
		}
		return false
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
