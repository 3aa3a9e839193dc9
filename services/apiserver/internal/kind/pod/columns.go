package pod

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/kind/column"
)

var (
	specDocs   = corev1.PodSpec{}.SwaggerDoc()
	statusDocs = corev1.PodStatus{}.SwaggerDoc()
)

var columns = []metav1.TableColumnDefinition{
	column.Name(),
	column.String("Ready", "The aggregate readiness state of this pod for accepting traffic."),
	column.String("Status", "The aggregate status of the containers in this pod."),
	column.String("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted."),
	column.Age(),
	column.Wide(column.String("IP", statusDocs["podIP"])),
	column.Wide(column.String("Node", specDocs["nodeName"])),
	column.Wide(column.String("Nominated Node", statusDocs["nominatedNodeName"])),
	column.Wide(column.String("Readiness Gates", specDocs["readinessGates"])),
}

func cells(p *corev1.Pod, now time.Time) []any {
	s := summarize(p)
	restarts := strconv.Itoa(s.restarts)
	if s.restarts > 0 && !s.lastRestart.IsZero() {
		restarts = fmt.Sprintf("%d (%s ago)", s.restarts, column.Since(now, s.lastRestart))
	}
	ip := p.Status.PodIP
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return []any{
		p.Name, fmt.Sprintf("%d/%d", s.ready, s.total), s.reason, restarts,
		column.Since(now, p.CreationTimestamp.Time),
		column.Or(ip, column.None), column.Or(p.Spec.NodeName, column.None),
		column.Or(p.Status.NominatedNodeName, column.None), gates(p),
	}
}

// gates is how many of the pod's readiness gates are open.
func gates(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return column.None
	}
	open := 0
	for _, g := range p.Spec.ReadinessGates {
		if isTrue(p, g.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(p.Spec.ReadinessGates))
}

func isTrue(p *corev1.Pod, t corev1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// finished marks the rows of pods that will not run any more.
func finished(p *corev1.Pod) []metav1.TableRowCondition {
	condition := metav1.TableRowCondition{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: string(p.Status.Phase)}
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		condition.Message = "The pod has completed successfully."
	case corev1.PodFailed:
		condition.Message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{condition}
}
