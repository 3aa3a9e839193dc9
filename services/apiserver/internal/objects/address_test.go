package objects

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRangesThatGive: a range gives addresses before a controller has seen it, and not once it is told to be not ready or is to go.
func TestRangesThatGive(t *testing.T) {
	t.Parallel()
	ready := func(status metav1.ConditionStatus) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: status}}}}
	}
	going := ready(metav1.ConditionTrue)
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for name, tt := range map[string]struct {
		cidr *networkingv1.ServiceCIDR
		want bool
	}{
		"new":           {&networkingv1.ServiceCIDR{}, true},
		"ready":         {ready(metav1.ConditionTrue), true},
		"not ready":     {ready(metav1.ConditionFalse), false},
		"unknown":       {ready(metav1.ConditionUnknown), false},
		"to be deleted": {going, false},
	} {
		if got := gives(tt.cidr); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
