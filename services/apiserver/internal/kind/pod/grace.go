package pod

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

// gracePeriod is what the request asks for, else what the pod asks for (a
// negative number means one second); 0 when there is no node that
// would have to end it, or nothing left to end there.
func gracePeriod(obj registry.Object, options *metav1.DeleteOptions) int64 {
	p := obj.(*corev1.Pod)
	period := int64(0)
	switch {
	case options != nil && options.GracePeriodSeconds != nil:
		period = *options.GracePeriodSeconds
	case p.Spec.TerminationGracePeriodSeconds != nil:
		period = *p.Spec.TerminationGracePeriodSeconds
	}
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return 0
	}
	if period < 0 {
		return 1
	}
	return period
}
