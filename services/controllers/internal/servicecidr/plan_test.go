package servicecidr

import (
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Unix(1000, 0)

func cidr(name, text string, deletedAgo time.Duration, conditions ...metav1.Condition) *networkingv1.ServiceCIDR {
	c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"a/b", Finalizer}}}
	c.Spec.CIDRs, c.Status.Conditions = []string{text}, conditions
	if deletedAgo >= 0 {
		c.DeletionTimestamp = &metav1.Time{Time: now.Add(-deletedAgo)}
	}
	return c
}

func address(name string, managed bool) *networkingv1.IPAddress {
	a := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if managed {
		a.Labels = map[string]string{networkingv1.LabelManagedBy: manager}
	}
	return a
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const stays = time.Duration(-1)
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"}
	fresh := cidr("a", "10.0.0.0/24", stays)
	fresh.Finalizers = nil
	used := []*networkingv1.IPAddress{address("10.0.0.7", true)}
	for name, test := range map[string]struct {
		cidr      *networkingv1.ServiceCIDR
		others    []*networkingv1.ServiceCIDR
		addresses []*networkingv1.IPAddress
		want      Plan
	}{
		"new":                      {cidr: fresh, want: Plan{Finalizers: []string{Finalizer}, Changed: true, Condition: &ready}},
		"ready":                    {cidr: cidr("a", "10.0.0.0/24", stays, ready), want: Plan{}},
		"going, young":             {cidr: cidr("a", "10.0.0.0/24", 4*time.Second, ready), want: Plan{After: 6 * time.Second}},
		"going":                    {cidr: cidr("a", "10.0.0.0/24", grace, ready), want: Plan{Finalizers: []string{"a/b"}, Changed: true}},
		"in use":                   {cidr: cidr("a", "10.0.0.0/24", grace, ready), addresses: used, want: Plan{Condition: &metav1.Condition{Status: metav1.ConditionFalse, Reason: "Terminating"}}},
		"in use by a range beside": {cidr: cidr("a", "10.0.0.0/24", grace, ready), addresses: used, others: []*networkingv1.ServiceCIDR{cidr("b", "10.0.0.0/29", stays)}, want: Plan{Finalizers: []string{"a/b"}, Changed: true}},
		"the other goes too":       {cidr: cidr("a", "10.0.0.0/24", grace, ready), addresses: used, others: []*networkingv1.ServiceCIDR{cidr("b", "10.0.0.0/29", grace)}, want: Plan{Condition: &metav1.Condition{Status: metav1.ConditionFalse, Reason: "Terminating"}}},
		"somebody else's address":  {cidr: cidr("a", "10.0.0.0/24", grace, ready), addresses: []*networkingv1.IPAddress{address("10.0.0.7", false)}, want: Plan{Finalizers: []string{"a/b"}, Changed: true}},
		"another range's address":  {cidr: cidr("a", "10.0.0.0/24", grace, ready), addresses: []*networkingv1.IPAddress{address("10.0.1.7", true)}, want: Plan{Finalizers: []string{"a/b"}, Changed: true}},
	} {
		got := Decide(test.cidr, append(test.others, test.cidr), test.addresses, now)
		same := slices.Equal(got.Finalizers, test.want.Finalizers) && got.Changed == test.want.Changed && got.After == test.want.After
		if (got.Condition == nil) != (test.want.Condition == nil) {
			same = false
		} else if c := got.Condition; c != nil && (c.Status != test.want.Condition.Status || c.Reason != test.want.Condition.Reason) {
			same = false
		}
		if !same {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
