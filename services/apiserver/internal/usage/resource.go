package usage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"howdah.dev/services/apiserver/internal/objects"
	"howdah.dev/services/apiserver/internal/registry"
)

const (
	nodeKind = "NodeMetrics"
	podKind  = "PodMetrics"
)

// singular is how errors name what is not known.
var singular = map[string]string{nodeKind: "nodemetrics", podKind: "podmetrics"}

// Resources are nodes and pods of metrics.k8s.io/v1beta1.
func (m *Maker) Resources() []objects.Made {
	return []objects.Made{
		{Make: m.nodes, Resource: resourceOf(&registry.Kind{
			Resource: "nodes", New: func() registry.Object { return &metricsv1beta1.NodeMetrics{} }, NewList: func() runtime.Object { return &metricsv1beta1.NodeMetricsList{} },
			Cells: func(o registry.Object) []any {
				if n, ok := o.(*metricsv1beta1.NodeMetrics); ok {
					return cells(n.Name, n.Usage, n.Window)
				}
				return cells(o.GetName(), nil, metav1.Duration{})
			},
		}, nodeKind)},
		{Make: m.pods, Resource: resourceOf(&registry.Kind{
			Resource: "pods", Namespaced: true, New: func() registry.Object { return &metricsv1beta1.PodMetrics{} }, NewList: func() runtime.Object { return &metricsv1beta1.PodMetricsList{} },
			Cells: func(o registry.Object) []any {
				if p, ok := o.(*metricsv1beta1.PodMetrics); ok {
					return cells(p.Name, sum(p.Containers), p.Window)
				}
				return cells(o.GetName(), nil, metav1.Duration{})
			},
		}, podKind)},
	}
}

func resourceOf(k *registry.Kind, kind string) *registry.Resource {
	gv := metricsv1beta1.SchemeGroupVersion
	k.GVK, k.Columns, k.Extension = gv.WithKind(kind), columns(), true
	return &registry.Resource{Kind: k, GVK: k.GVK, GVR: gv.WithResource(k.Resource), ListKind: kind + "List"}
}

func columns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
		{Name: string(corev1.ResourceCPU), Type: "string", Format: "quantity"},
		{Name: string(corev1.ResourceMemory), Type: "string", Format: "quantity"},
		{Name: "Window", Type: "string", Format: "duration"},
	}
}

func cells(name string, usage corev1.ResourceList, window metav1.Duration) []any {
	cpu, memory := usage[corev1.ResourceCPU], usage[corev1.ResourceMemory]
	return []any{name, cpu.String(), memory.String(), window.Duration.String()}
}

// sum is what all containers of a pod use.
func sum(containers []metricsv1beta1.ContainerMetrics) corev1.ResourceList {
	cpu, memory := resource.Quantity{Format: resource.DecimalSI}, resource.Quantity{Format: resource.BinarySI}
	for _, c := range containers {
		cpu.Add(c.Usage[corev1.ResourceCPU])
		memory.Add(c.Usage[corev1.ResourceMemory])
	}
	return corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
}
