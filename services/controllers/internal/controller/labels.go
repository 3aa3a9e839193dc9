package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/kit/object"
)

// byLabel files a pod under each of its labels.
func byLabel(o any) ([]string, error) {
	p := o.(*corev1.Pod)
	values := make([]string, 0, len(p.Labels))
	for key, value := range p.Labels {
		values = append(values, labelled(p.Namespace, key, value))
	}
	return values, nil
}

func labelled(namespace, key, value string) string { return namespace + "/" + key + "=" + value }

// Selected returns the pods of a namespace that have all of these labels, as the cache has them at one time. It looks at those alone that have
// the rarest of them: beside services with thousands of pods each in a namespace, to look at all is most of what there is to do.
func Selected(pods *object.Informer[*corev1.Pod], namespace string, selector map[string]string) []*corev1.Pod {
	if len(selector) == 0 {
		return pods.List(namespace)
	}
	rarest, fewest := "", 0
	for key, value := range selector {
		label := labelled(namespace, key, value)
		if len(selector) == 1 {
			return pods.ByIndex(ByLabel, label)
		}
		if n := pods.Filed(ByLabel, label); rarest == "" || n < fewest {
			rarest, fewest = label, n
		}
	}
	matches := labels.SelectorFromValidatedSet(selector).Matches
	var selected []*corev1.Pod
	for _, p := range pods.ByIndex(ByLabel, rarest) {
		if matches(labels.Set(p.Labels)) {
			selected = append(selected, p)
		}
	}
	return selected
}
