package carry

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/federation/api"
	"howdah.dev/services/federation/internal/place"
)

// Of is what the decision where an object goes has to know of it.
func Of(o *unstructured.Unstructured) place.Template {
	t := place.Template{GroupVersion: o.GroupVersionKind().GroupVersion().String(), Kind: o.GetKind()}
	if n, found, err := unstructured.NestedInt64(o.Object, "spec", "replicas"); err == nil && found {
		replicas := int32(n)
		t.Replicas = &replicas
	}
	if pod := podOf(o); pod != nil {
		t.Requests = requests(pod)
	}
	return t
}

// podOf returns the pods' specification that a workload of any kind has where the built-in ones have it; nil where there is none.
func podOf(o *unstructured.Unstructured) *corev1.PodSpec {
	path := []string{"spec", "template", "spec"}
	switch gk := o.GroupVersionKind().GroupKind(); gk {
	case schema.GroupKind{Kind: "Pod"}:
		path = []string{"spec"}
	case schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		path = []string{"spec", "jobTemplate", "spec", "template", "spec"}
	}
	value, found, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if err != nil || !found {
		return nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	pod := &corev1.PodSpec{}
	if json.Unmarshal(data, pod) != nil || len(pod.Containers) == 0 {
		return nil
	}
	return pod
}

// requests are what one pod asks for: its containers together, or an init container that asks for more.
func requests(pod *corev1.PodSpec) api.Resources {
	sum := api.Resources{}
	for i := range pod.Containers {
		for name, q := range pod.Containers[i].Resources.Requests {
			total := sum[string(name)]
			total.Add(q)
			sum[string(name)] = total
		}
	}
	for i := range pod.InitContainers {
		for name, q := range pod.InitContainers[i].Resources.Requests {
			if most := sum[string(name)]; q.Cmp(most) > 0 {
				sum[string(name)] = q
			}
		}
	}
	for name, q := range pod.Overhead {
		total := sum[string(name)]
		total.Add(q)
		sum[string(name)] = total
	}
	return sum
}

// Requests are what a pod asks for.
func Requests(pod *corev1.PodSpec) api.Resources { return requests(pod) }

// Needs are the objects that pods of the object name, in their order by kind and name: they go where it goes.
func Needs(o *unstructured.Unstructured) []api.ObjectReference {
	pod := podOf(o)
	if pod == nil {
		return nil
	}
	found := map[api.ObjectReference]bool{}
	add := func(kind, name string) {
		if name != "" {
			found[api.ObjectReference{APIVersion: "v1", Kind: kind, Name: name}] = true
		}
	}
	if pod.ServiceAccountName != "default" {
		add("ServiceAccount", pod.ServiceAccountName)
	}
	for _, s := range pod.ImagePullSecrets {
		add("Secret", s.Name)
	}
	for i := range pod.Volumes {
		volumeNeeds(&pod.Volumes[i], add)
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, from := range c.EnvFrom {
			if from.ConfigMapRef != nil {
				add("ConfigMap", from.ConfigMapRef.Name)
			}
			if from.SecretRef != nil {
				add("Secret", from.SecretRef.Name)
			}
		}
		for _, env := range c.Env {
			if env.ValueFrom == nil {
				continue
			}
			if ref := env.ValueFrom.ConfigMapKeyRef; ref != nil {
				add("ConfigMap", ref.Name)
			}
			if ref := env.ValueFrom.SecretKeyRef; ref != nil {
				add("Secret", ref.Name)
			}
		}
	}
	var all []api.ObjectReference
	for ref := range found {
		if ref.Kind != "ConfigMap" || ref.Name != "kube-root-ca.crt" {
			all = append(all, ref)
		}
	}
	slices.SortFunc(all, compareReferences)
	return all
}

func compareReferences(a, b api.ObjectReference) int {
	return slices.Compare([]string{a.APIVersion, a.Kind, a.Name}, []string{b.APIVersion, b.Kind, b.Name})
}

func volumeNeeds(v *corev1.Volume, add func(kind, name string)) {
	switch {
	case v.ConfigMap != nil:
		add("ConfigMap", v.ConfigMap.Name)
	case v.Secret != nil:
		add("Secret", v.Secret.SecretName)
	case v.PersistentVolumeClaim != nil:
		add("PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if source.ConfigMap != nil {
				add("ConfigMap", source.ConfigMap.Name)
			}
			if source.Secret != nil {
				add("Secret", source.Secret.Name)
			}
		}
	}
}
