package autoscaler

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/services/apiserver/internal/kind/column"
)

func cells(h *scaler, now time.Time) []any {
	least := "<unset>"
	if h.Spec.MinReplicas != nil {
		least = strconv.Itoa(int(*h.Spec.MinReplicas))
	}
	return []any{
		h.Name, h.Spec.ScaleTargetRef.Kind + "/" + h.Spec.ScaleTargetRef.Name, targets(h.Spec.Metrics, h.Status.CurrentMetrics),
		least, int64(h.Spec.MaxReplicas), int64(h.Status.CurrentReplicas), column.Since(now, h.CreationTimestamp.Time),
	}
}

// shown is the number of metrics that fit into the column.
const shown = 2

// targets is "cpu: 50%/80%, 12/30 + 1 more...": of each metric what is, and what should be.
func targets(specs []autoscalingv2.MetricSpec, statuses []autoscalingv2.MetricStatus) string {
	if len(specs) == 0 {
		return column.None
	}
	var list []string
	for i := range specs {
		var now *autoscalingv2.MetricStatus
		if i < len(statuses) {
			now = &statuses[i]
		}
		list = append(list, target(&specs[i], now))
	}
	if len(list) > shown {
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:shown], ", "), len(list)-shown)
	}
	return strings.Join(list, ", ")
}

func target(s *autoscalingv2.MetricSpec, now *autoscalingv2.MetricStatus) string {
	none := autoscalingv2.MetricValueStatus{}
	switch {
	case s.Type == autoscalingv2.ExternalMetricSourceType && s.External != nil:
		if now != nil && now.External != nil {
			none = now.External.Current
		}
		return amounts(&s.External.Target, &none, " (avg)")
	case s.Type == autoscalingv2.PodsMetricSourceType && s.Pods != nil:
		if now != nil && now.Pods != nil {
			none = now.Pods.Current
		}
		return amounts(&s.Pods.Target, &none, "")
	case s.Type == autoscalingv2.ObjectMetricSourceType && s.Object != nil:
		if now != nil && now.Object != nil {
			none = now.Object.Current
		}
		return amounts(&s.Object.Target, &none, " (avg)")
	case s.Type == autoscalingv2.ResourceMetricSourceType && s.Resource != nil:
		if now != nil && now.Resource != nil {
			none = now.Resource.Current
		}
		return string(s.Resource.Name) + ": " + usage(&s.Resource.Target, &none)
	case s.Type == autoscalingv2.ContainerResourceMetricSourceType && s.ContainerResource != nil:
		if now != nil && now.ContainerResource != nil {
			none = now.ContainerResource.Current
		}
		return string(s.ContainerResource.Name) + ": " + usage(&s.ContainerResource.Target, &none)
	}
	return "<unknown type>"
}

func amounts(t *autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus, average string) string {
	if t.AverageValue != nil {
		return quantity(now.AverageValue) + "/" + t.AverageValue.String() + average
	}
	return quantity(now.Value) + "/" + quantity(t.Value)
}

func usage(t *autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	if t.AverageValue != nil {
		return quantity(now.AverageValue) + "/" + t.AverageValue.String()
	}
	current, want := column.Unknown, "<auto>"
	if now.AverageUtilization != nil {
		current = fmt.Sprintf("%d%%", *now.AverageUtilization)
	}
	if t.AverageUtilization != nil {
		want = fmt.Sprintf("%d%%", *t.AverageUtilization)
	}
	return current + "/" + want
}

func quantity(q *resource.Quantity) string {
	if q == nil {
		return column.Unknown
	}
	return q.String()
}
