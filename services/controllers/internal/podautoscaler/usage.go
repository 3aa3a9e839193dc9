package podautoscaler

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"howdah.dev/kit/object"
)

// podMetrics are what pods use, as the API makes it itself; as with kinds that have definitions, they are sent as JSON.
var podMetrics = object.CustomKind(metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics"), "pods", true, func() *metricsv1beta1.PodMetrics {
	return &metricsv1beta1.PodMetrics{}
})

// usage reads what pods use: of the extension API server that an APIService names, or else as the API makes it itself.
func (a *metricsAPIs) usage(ctx context.Context, namespace string, pods labels.Selector) ([]metricsv1beta1.PodMetrics, error) {
	options := metav1.ListOptions{LabelSelector: pods.String()}
	list, err := a.resource.PodMetricses(namespace).List(ctx, options)
	if err == nil {
		return list.Items, nil
	}
	// Where no extension API server serves the version, the way to them ends with 404, or with 405 if the API makes it itself.
	if !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
		return nil, err
	}
	made, _, problem := a.made.List(ctx, namespace, options)
	if apierrors.IsNotFound(problem) {
		return nil, err // neither is there
	}
	items := make([]metricsv1beta1.PodMetrics, len(made))
	for i, m := range made {
		items[i] = *m
	}
	return items, problem
}
