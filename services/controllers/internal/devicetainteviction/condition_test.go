package devicetainteviction

import (
	"testing"
	"time"

	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/internal/devicetaint"
)

func ruleWith(effect resourcev1beta2.DeviceTaintEffect) *devicetaint.Rule {
	r := &devicetaint.Rule{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "r", Generation: 3}}
	r.Spec.Taint.Effect = effect
	return r
}

func TestSay(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		effect  resourcev1beta2.DeviceTaintEffect
		numbers Numbers
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{resourcev1beta2.DeviceTaintEffectNoExecute, Numbers{}, metav1.ConditionFalse, "NotStarted", ""},
		{resourcev1beta2.DeviceTaintEffectNoExecute, Numbers{Pods: 1, Namespaces: 1}, metav1.ConditionTrue, "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace."},
		{resourcev1beta2.DeviceTaintEffectNoExecute, Numbers{Pods: 5, Namespaces: 2, Evicted: 1}, metav1.ConditionTrue, "PodsPendingEviction",
			"5 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller."},
		{resourcev1beta2.DeviceTaintEffectNoExecute, Numbers{Evicted: 7}, metav1.ConditionFalse, "Completed", "7 pods evicted since starting the controller."},
		{resourcev1beta2.DeviceTaintEffectNone, Numbers{Published: 1, Pods: 2, Namespaces: 1}, metav1.ConditionFalse, "NoEffect",
			"1 published device selected. 0 allocated devices selected. 2 pods would be evicted in 1 namespace if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."},
		{resourcev1beta2.DeviceTaintEffectNoSchedule, Numbers{}, metav1.ConditionFalse, "OtherEffect", "Eviction only happens for the NoExecute effect."},
	} {
		r := ruleWith(c.effect)
		r.Status.Conditions = []metav1.Condition{{Type: "Other"}}
		said := Say(r, c.numbers, now)
		if said == nil || len(said.Status.Conditions) != 2 || len(r.Status.Conditions) != 1 {
			t.Fatalf("%s %+v: said %v", c.effect, c.numbers, said)
		}
		got := said.Status.Conditions[1]
		want := metav1.Condition{Type: "EvictionInProgress", Status: c.status, Reason: c.reason, Message: c.message, ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(now)}
		if got != want {
			t.Errorf("%s %+v:\n%+v, want\n%+v", c.effect, c.numbers, got, want)
		}
		if again := Say(said, c.numbers, now.Add(time.Hour)); again != nil {
			t.Errorf("%s %+v: said twice: %+v", c.effect, c.numbers, again.Status)
		}
		// What is new moves the time, whether the status changes or not.
		more := c.numbers
		more.Evicted++
		if again := Say(said, more, now.Add(time.Hour)); again == nil || !again.Status.Conditions[1].LastTransitionTime.Time.Equal(now.Add(time.Hour)) || len(again.Status.Conditions) != 2 {
			t.Errorf("%s %+v: the time stays: %+v", c.effect, c.numbers, again)
		}
		if Told(said) != (c.effect == resourcev1beta2.DeviceTaintEffectNone) || Told(r) {
			t.Errorf("%s: told %v", c.effect, Told(said))
		}
		if wait := Wait(said, now.Add(3*time.Second)); wait != 7*time.Second {
			t.Errorf("%s: waits %s", c.effect, wait)
		}
		said.Generation++
		if Wait(said, now) != 0 || Told(said) {
			t.Errorf("%s: a new spec waits", c.effect)
		}
	}
}
