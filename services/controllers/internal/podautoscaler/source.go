package podautoscaler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	custom "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	customclient "k8s.io/metrics/pkg/client/custom_metrics"
	externalclient "k8s.io/metrics/pkg/client/external_metrics"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/discovery"
)

// metricsAPIs are the three APIs of metrics, as extension API servers serve them, or, that of resources, the API itself.
type metricsAPIs struct {
	made     object.Resource[*metricsv1beta1.PodMetrics]
	resource resourceclient.MetricsV1beta1Interface
	custom   customclient.CustomMetricsClient
	external externalclient.ExternalMetricsClient
}

func newMetricsAPIs(client *object.Client, kinds *discovery.Kinds, c clock.PassiveClock) (*metricsAPIs, error) {
	resource, err := resourceclient.NewForConfig(client.Extensions())
	if err != nil {
		return nil, fmt.Errorf("client of resource metrics: %w", err)
	}
	external, err := externalclient.NewForConfig(client.Extensions())
	if err != nil {
		return nil, fmt.Errorf("client of external metrics: %w", err)
	}
	versions := &customVersions{client: client, clock: c}
	return &metricsAPIs{object.For(client, podMetrics), resource, customclient.NewForConfig(client.Extensions(), restMapper{meta.MultiRESTMapper{}, kinds}, versions), external}, nil
}

// defaultWindow is what custom metrics are an average over that do not say it.
const defaultWindow = time.Minute

// Read reads a metric: samples of the pods that the selector selects, or a value.
func (a *metricsAPIs) Read(ctx context.Context, namespace string, pods labels.Selector, m autoscalingv2.MetricSpec) Reading {
	switch {
	case m.Resource != nil:
		return a.readResource(ctx, namespace, pods, m.Resource.Name, "")
	case m.ContainerResource != nil:
		return a.readResource(ctx, namespace, pods, m.ContainerResource.Name, m.ContainerResource.Container)
	case m.Pods != nil:
		return a.readPods(namespace, pods, m.Pods.Metric)
	case m.Object != nil:
		return a.readObject(namespace, m.Object.DescribedObject, m.Object.Metric)
	case m.External != nil:
		return a.readExternal(namespace, m.External.Metric)
	}
	return Reading{}
}

func (a *metricsAPIs) readResource(ctx context.Context, namespace string, pods labels.Selector, resource corev1.ResourceName, container string) Reading {
	items, err := a.usage(ctx, namespace, pods)
	switch {
	case err != nil:
		err = fmt.Errorf("unable to fetch metrics from resource metrics API: %w", err)
	case len(items) == 0:
		err = errors.New("no metrics returned from resource metrics API")
	}
	if err != nil {
		return Reading{Err: fmt.Errorf("unable to get metrics for resource %s: %w", resource, err)}
	}
	samples := Samples{}
	for _, p := range items {
		if used, ok := used(&p, resource, container); ok {
			samples[p.Name] = Sample{used, p.Timestamp.Time, p.Window.Duration}
		}
	}
	return Reading{Samples: samples}
}

// used is what a pod uses of a resource, or one container of it, in thousandths; false where it is not known of all of them.
func used(p *metricsv1beta1.PodMetrics, resource corev1.ResourceName, container string) (total int64, ok bool) {
	for _, c := range p.Containers {
		if container != "" && c.Name != container {
			continue
		}
		q, known := c.Usage[resource]
		if !known {
			return 0, false
		}
		total, ok = total+q.MilliValue(), true
	}
	return total, ok
}

func (a *metricsAPIs) readPods(namespace string, pods labels.Selector, m autoscalingv2.MetricIdentifier) Reading {
	var list *custom.MetricValueList
	selector, err := metav1.LabelSelectorAsSelector(m.Selector)
	if err != nil {
		return Reading{Err: err}
	}
	list, err = a.custom.NamespacedMetrics(namespace).GetForObjects(schema.GroupKind{Kind: "Pod"}, pods, m.Name, selector)
	switch {
	case err != nil:
		err = fmt.Errorf("unable to fetch metrics from custom metrics API: %w", err)
	case len(list.Items) == 0:
		err = errors.New("no metrics returned from custom metrics API")
	}
	if err != nil {
		return Reading{Err: fmt.Errorf("unable to get metric %s: %w", m.Name, err)}
	}
	samples := Samples{}
	for _, v := range list.Items {
		window := defaultWindow
		if v.WindowSeconds != nil {
			window = time.Duration(*v.WindowSeconds) * time.Second
		}
		samples[v.DescribedObject.Name] = Sample{v.Value.MilliValue(), v.Timestamp.Time, window}
	}
	return Reading{Samples: samples}
}

func (a *metricsAPIs) readObject(namespace string, of autoscalingv2.CrossVersionObjectReference, m autoscalingv2.MetricIdentifier) Reading {
	selector, err := metav1.LabelSelectorAsSelector(m.Selector)
	if err != nil {
		return Reading{Err: err}
	}
	kind := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind()
	var value *custom.MetricValue
	if kind == (schema.GroupKind{Kind: "Namespace"}) { // an autoscaler sees no other than its own
		value, err = a.custom.RootScopedMetrics().GetForObject(kind, namespace, m.Name, selector)
	} else {
		value, err = a.custom.NamespacedMetrics(namespace).GetForObject(kind, of.Name, m.Name, selector)
	}
	if err != nil {
		// Kubernetes says it in this order.
		return Reading{Err: fmt.Errorf("unable to get metric %s: %s on %s %s/unable to fetch metrics from custom metrics API: %w", m.Name, of.Kind, namespace, of.Name, err)}
	}
	return Reading{Value: value.Value.MilliValue()}
}

func (a *metricsAPIs) readExternal(namespace string, m autoscalingv2.MetricIdentifier) Reading {
	selector, err := metav1.LabelSelectorAsSelector(m.Selector)
	if err != nil {
		return Reading{Err: err}
	}
	list, err := a.external.NamespacedMetrics(namespace).List(m.Name, selector)
	switch {
	case err != nil:
		err = fmt.Errorf("unable to fetch metrics from external metrics API: %w", err)
	case len(list.Items) == 0:
		err = errors.New("no metrics returned from external metrics API")
	}
	if err != nil {
		return Reading{Err: fmt.Errorf("unable to get external metric %s/%s/%+v: %w", namespace, m.Name, m.Selector, err)}
	}
	values := make([]int64, 0, len(list.Items))
	for _, v := range list.Items {
		values = append(values, v.Value.MilliValue())
	}
	return Reading{Value: sum(values)}
}

// customVersions finds out which version of custom metrics is served.
type customVersions struct {
	client *object.Client
	clock  clock.PassiveClock

	mu    sync.Mutex
	found schema.GroupVersion
	at    time.Time
}

var _ customclient.AvailableAPIsGetter = (*customVersions)(nil)

// PreferredVersion implements custom_metrics.AvailableAPIsGetter.
func (v *customVersions) PreferredVersion() (schema.GroupVersion, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := v.clock.Now(); v.found.Empty() || now.Sub(v.at) >= discovery.Keep {
		found, err := v.find()
		if err != nil {
			return found, err
		}
		v.found, v.at = found, now
	}
	return v.found, nil
}

func (v *customVersions) find() (schema.GroupVersion, error) {
	groups, err := discovery.Groups(context.Background(), v.client)
	if err != nil {
		return schema.GroupVersion{}, err
	}
	for _, g := range groups {
		if g.Name != custom_metrics.GroupName {
			continue
		}
		for _, served := range append([]metav1.GroupVersionForDiscovery{g.PreferredVersion}, g.Versions...) {
			for _, known := range customclient.MetricVersions {
				if served.GroupVersion == known.String() {
					return known, nil
				}
			}
		}
		return schema.GroupVersion{}, errors.New("no known available metric versions found")
	}
	return schema.GroupVersion{}, fmt.Errorf("no custom metrics API (%s) registered", custom_metrics.GroupName)
}

// Invalidate implements custom_metrics.AvailableAPIsGetter.
func (v *customVersions) Invalidate() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.found = schema.GroupVersion{}
}

// restMapper is what clients of custom metrics find resources with.
type restMapper struct {
	meta.RESTMapper // knows nothing
	kinds           *discovery.Kinds
}

// RESTMapping implements meta.RESTMapper.
func (m restMapper) RESTMapping(kind schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	found, err := m.kinds.Find(context.Background(), kind)
	if err != nil {
		return nil, err
	}
	scope := meta.RESTScopeRoot
	if found[0].Namespaced {
		scope = meta.RESTScopeNamespace
	}
	return &meta.RESTMapping{Resource: found[0].GVK.GroupVersion().WithResource(found[0].Name), GroupVersionKind: found[0].GVK, Scope: scope}, nil
}
