package plugin

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// podWithin returns what in a pod a limit forbids.
func podWithin(pod *corev1.Pod, item *corev1.LimitRangeItem) []error {
	switch item.Type {
	case corev1.LimitTypeContainer:
		var errs []error
		for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range containers {
				errs = append(errs, within(item, containers[i].Resources.Requests, containers[i].Resources.Limits)...)
			}
		}
		return errs
	case corev1.LimitTypePod:
		options := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
		return within(item, resourcehelper.PodRequests(pod, options), resourcehelper.PodLimits(pod, options))
	}
	return nil
}

// claimWithin returns what in a claim a limit forbids. Of a claim only the request counts.
func claimWithin(claim *corev1.PersistentVolumeClaim, item *corev1.LimitRangeItem) []error {
	if item.Type != corev1.LimitTypePersistentVolumeClaim {
		return nil
	}
	requests := claim.Spec.Resources.Requests
	var errs []error
	for _, name := range names(item.Min) {
		errs = append(errs, least(item.Type, name, item.Min[name], requests, nil)...)
	}
	for _, name := range names(item.Max) {
		most := item.Max[name]
		request, ok := requests[name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, item.Type, most.String()))
		case request.Cmp(most) > 0:
			errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, item.Type, most.String(), request.String()))
		}
	}
	return errs
}

func within(item *corev1.LimitRangeItem, requests, limits corev1.ResourceList) []error {
	var errs []error
	for _, name := range names(item.Min) {
		errs = append(errs, least(item.Type, name, item.Min[name], requests, limits)...)
	}
	for _, name := range names(item.Max) {
		errs = append(errs, most(item.Type, name, item.Max[name], requests, limits)...)
	}
	for _, name := range names(item.MaxLimitRequestRatio) {
		errs = append(errs, ratio(item.Type, name, item.MaxLimitRequestRatio[name], requests, limits)...)
	}
	return errs
}

func names(list corev1.ResourceList) []corev1.ResourceName { return slices.Sorted(maps.Keys(list)) }

func least(kind corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests, limits corev1.ResourceList) []error {
	request, asked := requests[name]
	limit, limited := limits[name]
	switch {
	case !asked:
		return []error{fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, kind, bound.String())}
	case request.Cmp(bound) < 0:
		return []error{fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, kind, bound.String(), request.String())}
	case limited && limit.Cmp(bound) < 0:
		return []error{fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, kind, bound.String(), limit.String())}
	}
	return nil
}

func most(kind corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests, limits corev1.ResourceList) []error {
	request, asked := requests[name]
	limit, limited := limits[name]
	switch {
	case !limited:
		return []error{fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, kind, bound.String())}
	case limit.Cmp(bound) > 0:
		return []error{fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, kind, bound.String(), limit.String())}
	case asked && request.Cmp(bound) > 0:
		return []error{fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, kind, bound.String(), request.String())}
	}
	return nil
}

func ratio(kind corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests, limits corev1.ResourceList) []error {
	request, asked := requests[name]
	limit, limited := limits[name]
	switch {
	case !asked || request.IsZero():
		return []error{fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, kind, bound.String())}
	case !limited || limit.IsZero():
		return []error{fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, kind, bound.String())}
	}
	if is := limit.AsApproximateFloat64() / request.AsApproximateFloat64(); is > bound.AsApproximateFloat64() {
		return []error{fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, kind, bound.String(), is)}
	}
	return nil
}
