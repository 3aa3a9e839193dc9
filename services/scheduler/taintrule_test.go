package scheduler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
	"howdah.dev/services/internal/devicetaint"
)

// TestARuleKeepsDevicesFromPods: while there is one; when it goes, who waits is tried again.
func TestARuleKeepsDevicesFromPods(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("n1", "1"))
		create(w, object.DeviceClass, gpuClass())
		create(w, object.ResourceSlice, gpus("n1", 1))
		create(w, object.ResourceClaim, gpuClaim("x"))
		create(w, devicetaint.Kind, &devicetaint.Rule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourcev1beta2.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1beta2.DeviceTaintSelector{}, Taint: resourcev1beta2.DeviceTaint{Key: "broken", Effect: resourcev1beta2.DeviceTaintEffectNoSchedule},
		}})
	})
	w.addPod(t.Context(), podClaiming("p", "x"))
	pods := w.awaitPods("the pod to be refused", func(pods map[string]*corev1.Pod) bool { return condition(pods["p"]) != nil })
	if got := condition(pods["p"]).Message; !strings.HasPrefix(got, "0/1 nodes are available: 1 cannot allocate all claims.") {
		t.Errorf("it is refused with %q", got)
	}
	if err := object.For(w.client, devicetaint.Kind).Delete(t.Context(), "", "r", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.awaitPods("the pod to be bound", bound(1))
}
