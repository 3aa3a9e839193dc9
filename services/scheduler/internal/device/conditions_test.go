package device

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestReady(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	tests := []struct {
		name    string
		asks    bool // the device has conditions
		told    map[string]metav1.ConditionStatus
		after   time.Duration
		ready   bool
		failure string
	}{
		{"no conditions", false, nil, time.Hour, true, ""},
		{"nothing told", true, nil, 0, false, ""},
		{"one of two", true, map[string]metav1.ConditionStatus{"attached": metav1.ConditionTrue, "warm": metav1.ConditionFalse}, 0, false, ""},
		{"both", true, map[string]metav1.ConditionStatus{"attached": metav1.ConditionTrue, "warm": metav1.ConditionTrue, "broken": metav1.ConditionFalse}, time.Hour, true, ""},
		{"broken", true, map[string]metav1.ConditionStatus{"attached": metav1.ConditionTrue, "broken": metav1.ConditionTrue}, 0, false, "device binding failed: claim=x, reason=Told"},
		{"too late", true, nil, Timeout, false, "device binding timeout: claim=x"},
	}
	for _, tt := range tests {
		c := allocated(claim("1", "p"))
		c.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: start}
		if tt.asks {
			r := &c.Status.Allocation.Devices.Results[0]
			r.BindingConditions, r.BindingFailureConditions = []string{"attached", "warm"}, []string{"broken"}
		}
		if tt.told != nil {
			d := resourcev1.AllocatedDeviceStatus{Driver: "d", Pool: "p", Device: "a"}
			for name, status := range tt.told {
				d.Conditions = append(d.Conditions, metav1.Condition{Type: name, Status: status, Reason: "Told"})
			}
			c.Status.Devices = []resourcev1.AllocatedDeviceStatus{d}
		}
		cache := NewCache()
		cache.SetClaim(c)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}}
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: ptr.To("x")}}
		ready, err := cache.View().Ready(pod, start.Add(tt.after), Timeout)
		if ready != tt.ready || (err == nil) != (tt.failure == "") || err != nil && !strings.HasPrefix(err.Error(), tt.failure) {
			t.Errorf("%s: %v, %v", tt.name, ready, err)
		}
		if useless := cache.View().Useless(pod); (useless == nil) != tt.ready {
			t.Errorf("%s: %v is useless", tt.name, useless)
		}
	}
}
