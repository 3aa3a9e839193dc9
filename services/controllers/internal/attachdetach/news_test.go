package attachdetach

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestNews tells what goes on once, and what happens again again.
func TestNews(t *testing.T) {
	t.Parallel()
	pods := func(names ...string) (out []*corev1.Pod) {
		for _, n := range names {
			out = append(out, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: n, UID: types.UID(n)}})
		}
		return out
	}
	tried := func(after time.Duration) metav1.Time { return metav1.NewTime(now.Add(after)) }
	var held standing
	for i, step := range []struct {
		events []Event
		want   string
	}{
		{[]Event{{Pods: pods("a", "b"), Message: "taken"}}, "a:taken b:taken"},
		{[]Event{{Pods: pods("a", "b"), Message: "taken"}}, ""},
		{[]Event{{Pods: pods("a", "c"), Message: "taken"}}, "c:taken"},
		{[]Event{{Pods: pods("b"), Message: "taken"}, {Pods: pods("b"), Message: "taken"}}, "b:taken"},
		{[]Event{{Pods: pods("b"), Message: "full", At: tried(0)}}, "b:full"},
		{[]Event{{Pods: pods("b"), Message: "full", At: tried(0)}}, ""},
		{[]Event{{Pods: pods("b"), Message: "full", At: tried(time.Minute)}}, "b:full"},
		{nil, ""},
		{[]Event{{Pods: pods("b"), Message: "full", At: tried(time.Minute)}}, "b:full"},
	} {
		var fresh []Event
		fresh, held = held.tell(step.events)
		var got []string
		for _, e := range fresh {
			for _, pod := range e.Pods {
				got = append(got, pod.Name+":"+e.Message)
			}
		}
		if s := strings.Join(got, " "); s != step.want {
			t.Errorf("step %d: %q, want %q", i, s, step.want)
		}
	}
}
