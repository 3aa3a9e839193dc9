package object

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const sampled = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"

func version(uid, resourceVersion string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: resourceVersion}}
}

func TestTracesExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var traces traces
		known := func(o *corev1.Pod) bool { return traces.get(o).IsValid() }
		if known(version("a", "1")) {
			t.Error("an empty memory knows a trace")
		}
		traces.put(version("a", "1"), sampled)
		if !known(version("a", "1")) || known(version("a", "2")) || known(version("b", "1")) {
			t.Error("a trace belongs to one version of one object")
		}
		time.Sleep(traceAge + time.Second)
		traces.put(version("b", "2"), sampled) // begins the second generation
		if !known(version("a", "1")) || !known(version("b", "2")) {
			t.Error("the older generation is kept beside the younger")
		}
		time.Sleep(traceAge + time.Second)
		traces.put(version("c", "3"), sampled)
		if known(version("a", "1")) {
			t.Error("the third generation must end the first")
		}
		if !known(version("b", "2")) || !known(version("c", "3")) {
			t.Error("the last two generations are kept")
		}
		time.Sleep(2*traceAge + time.Second)
		if known(version("c", "3")) {
			t.Error("a trace that nothing followed must expire by itself")
		}
	})
}

func TestTracesKeepWhatIsSampledOnly(t *testing.T) {
	t.Parallel()
	var traces traces
	for i, traceparent := range []string{"", "nonsense", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"} {
		o := version(fmt.Sprint(i), "1")
		if traces.put(o, traceparent); traces.get(o).IsValid() {
			t.Errorf("%q was kept", traceparent)
		}
	}
}
