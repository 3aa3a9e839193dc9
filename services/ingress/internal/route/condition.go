package route

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verdict is what is decided about one condition: it holds, or a reason and a message say why not. The first reason stays.
type verdict struct{ reason, message string }

func (v *verdict) refuse(reason, format string, args ...any) {
	if v.reason == "" {
		v.reason, v.message = reason, fmt.Sprintf(format, args...)
	}
}

func (v verdict) ok() bool { return v.reason == "" }

// condition says that a verdict holds, with the reason for that, or why not.
func (v verdict) condition(kind, good string, generation int64) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: good, ObservedGeneration: generation}
	if !v.ok() {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v.reason, v.message
	}
	return c
}

// isTrue is a condition that holds with a reason of its own.
func isTrue(kind, reason, message string, generation int64) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: generation}
}
