package tainteviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	added := metav1.NewTime(now.Add(-100 * time.Second))
	taint := corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
	other := corev1.Taint{Key: "other", Value: "v", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
	harmless := corev1.Taint{Key: "s", Effect: corev1.TaintEffectNoSchedule}
	tolerate := func(key string, seconds *int64) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds}
	}
	for _, c := range []struct {
		name        string
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		created     time.Time
		want        Plan
	}{
		{name: "no taint"},
		{name: "NoSchedule only", taints: []corev1.Taint{harmless}},
		{name: "not tolerated", taints: []corev1.Taint{taint}, want: Plan{Evict: true, Due: added.Time}},
		{name: "tolerated for ever", taints: []corev1.Taint{taint}, tolerations: []corev1.Toleration{tolerate(taint.Key, nil)}},
		{name: "for a while", taints: []corev1.Taint{taint}, tolerations: []corev1.Toleration{tolerate(taint.Key, ptr.To[int64](300))}, want: Plan{After: 200 * time.Second}},
		{name: "over", taints: []corev1.Taint{taint}, tolerations: []corev1.Toleration{tolerate(taint.Key, ptr.To[int64](100))}, want: Plan{Evict: true, Due: now}},
		{name: "negative", taints: []corev1.Taint{taint}, tolerations: []corev1.Toleration{tolerate(taint.Key, ptr.To[int64](-7))}, want: Plan{Evict: true, Due: added.Time}},
		{name: "younger than the taint", taints: []corev1.Taint{taint}, created: now.Add(-10 * time.Second), tolerations: []corev1.Toleration{tolerate(taint.Key, ptr.To[int64](100))}, want: Plan{After: 90 * time.Second}},
		{name: "one of two", taints: []corev1.Taint{taint, other}, tolerations: []corev1.Toleration{tolerate(taint.Key, nil)}, want: Plan{Evict: true, Due: added.Time}},
		{name: "the shorter of two", taints: []corev1.Taint{taint, other}, tolerations: []corev1.Toleration{tolerate(taint.Key, ptr.To[int64](300)), tolerate("other", ptr.To[int64](150))}, want: Plan{After: 50 * time.Second}},
		{name: "everything tolerated", taints: []corev1.Taint{taint, other}, tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(c.created)}, Spec: corev1.PodSpec{Tolerations: c.tolerations}}
		if c.created.IsZero() {
			p.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
		}
		if c.want.After > 0 {
			c.want.Due = now.Add(c.want.After)
		}
		if got := Decide(p, c.taints, now); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
