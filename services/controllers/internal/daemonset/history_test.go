package daemonset

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestExpired(t *testing.T) {
	t.Parallel()
	var old []*appsv1.ControllerRevision
	for n := int64(5); n >= 1; n-- {
		hash := fmt.Sprint(n)
		old = append(old, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: hash, Labels: map[string]string{hashLabel: hash}}, Revision: n})
	}
	pods := []*corev1.Pod{newPod("p", "n0", func(p *corev1.Pod) { p.Labels[hashLabel] = "2" })}
	for limit, want := range map[int32]string{0: "1 3 4 5", 2: "1 3 4", 4: "1", 5: "", 10: ""} {
		ds := newSet()
		ds.Spec.RevisionHistoryLimit = ptr.To(limit)
		var names []string
		for _, r := range expired(ds, old, pods) {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("limit %d: %q expired, want %q", limit, got, want)
		}
	}
}
