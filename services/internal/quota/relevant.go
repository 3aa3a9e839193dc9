package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Relevant reports whether objects of a resource may consume what a name limits.
func Relevant(gr schema.GroupResource, name corev1.ResourceName) bool {
	if name == CountName(gr) {
		return true
	}
	s := string(name)
	switch gr {
	case schema.GroupResource{Resource: "pods"}:
		if compute, ok := computeNames[name]; ok {
			return compute
		}
		rest, asks := strings.CutPrefix(s, corev1.DefaultResourceRequestsPrefix)
		return strings.HasPrefix(s, corev1.ResourceHugePagesPrefix) ||
			asks && (strings.HasPrefix(rest, corev1.ResourceHugePagesPrefix) || extended(corev1.ResourceName(rest)))
	case schema.GroupResource{Resource: "services"}:
		return name == corev1.ResourceServices || name == corev1.ResourceServicesNodePorts || name == corev1.ResourceServicesLoadBalancers
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage || strings.Contains(s, classSuffix)
	case schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}:
		rest, asks := strings.CutPrefix(s, corev1.DefaultResourceRequestsPrefix)
		return strings.HasSuffix(s, ".deviceclass.resource.k8s.io/devices") || asks && extended(corev1.ResourceName(rest))
	}
	return gr.Group == "" && plain[gr.Resource] == name && name != ""
}

// computeNames are what pods consume, apart from devices and huge pages.
var computeNames = map[corev1.ResourceName]bool{
	corev1.ResourcePods: true, corev1.ResourceCPU: true, corev1.ResourceMemory: true, corev1.ResourceEphemeralStorage: true,
	corev1.ResourceRequestsCPU: true, corev1.ResourceRequestsMemory: true, corev1.ResourceRequestsEphemeralStorage: true,
	corev1.ResourceLimitsCPU: true, corev1.ResourceLimitsMemory: true, corev1.ResourceLimitsEphemeralStorage: true,
}

// mustSay are the resources that every container has to ask for where a quota limits them.
var mustSay = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

// Constraints returns what is wrong with an object under a quota that limits the names, beside its size: a pod must say what it
// needs of what is limited.
func Constraints(obj any, limited []corev1.ResourceName) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok || resourcehelper.IsPodLevelResourcesSet(pod) {
		return nil
	}
	missing := map[corev1.ResourceName]map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		said := List{}
		compute(c.Resources.Requests, c.Resources.Limits, said)
		for _, name := range mustSay {
			if _, ok := said[name]; ok || !slices.Contains(limited, name) {
				continue
			}
			if missing[name] == nil {
				missing[name] = map[string]bool{}
			}
			missing[name][c.Name] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(slices.Sorted(maps.Keys(missing[name])), ",")))
	}
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}
