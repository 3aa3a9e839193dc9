package devicetainteviction

import (
	"fmt"
	"slices"
	"time"

	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/internal/devicetaint"
)

// period is the shortest time between two writes of a rule's status.
const period = 10 * time.Second

// Numbers are what is counted for a rule. Those of a rule without effect are as they would be if it ended pods.
type Numbers struct {
	Published, Allocated int // devices
	Pods, Namespaces     int // that are to be ended
	Evicted              int // pods, since the leader began
}

// Wait is how long a rule's status is not to be written yet. That of a spec nothing was said of is written at once.
func Wait(r *devicetaint.Rule, now time.Time) time.Duration {
	c := conditionOf(r)
	if c == nil || c.ObservedGeneration != r.Generation {
		return 0
	}
	return max(0, c.LastTransitionTime.Add(period).Sub(now))
}

// Told reports whether all is said of a rule's spec that ever will be: what one without effect would do is counted once.
func Told(r *devicetaint.Rule) bool {
	c := conditionOf(r)
	return r.Spec.Taint.Effect == resourcev1beta2.DeviceTaintEffectNone && c != nil && c.ObservedGeneration == r.Generation
}

// Say returns a rule whose condition EvictionInProgress tells of the numbers, nil where it does already. The condition's time moves with whatever it says.
func Say(r *devicetaint.Rule, n Numbers, now time.Time) *devicetaint.Rule {
	c := condition(r, n)
	had := conditionOf(r)
	if had != nil {
		if c.LastTransitionTime = had.LastTransitionTime; c == *had {
			return nil
		}
	}
	c.LastTransitionTime = metav1.NewTime(now)
	r = r.DeepCopy()
	if had = conditionOf(r); had != nil {
		*had = c
	} else {
		r.Status.Conditions = append(r.Status.Conditions, c)
	}
	return r
}

func conditionOf(r *devicetaint.Rule) *metav1.Condition {
	i := slices.IndexFunc(r.Status.Conditions, func(c metav1.Condition) bool { return c.Type == resourcev1beta2.DeviceTaintConditionEvictionInProgress })
	if i < 0 {
		return nil
	}
	return &r.Status.Conditions[i]
}

func condition(r *devicetaint.Rule, n Numbers) metav1.Condition {
	c := metav1.Condition{Type: resourcev1beta2.DeviceTaintConditionEvictionInProgress, Status: metav1.ConditionFalse, ObservedGeneration: r.Generation}
	switch {
	case r.Spec.Taint.Effect == resourcev1beta2.DeviceTaintEffectNone:
		c.Reason = "NoEffect"
		c.Message = count(n.Published, "published device selected. ", "published devices selected. ") + count(n.Allocated, "allocated device selected. ", "allocated devices selected. ") +
			count(n.Pods, "pod would be evicted in ", "pods would be evicted in ") + count(n.Namespaces, "namespace ", "different namespaces ") +
			"if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
	case r.Spec.Taint.Effect != resourcev1beta2.DeviceTaintEffectNoExecute:
		c.Reason, c.Message = "OtherEffect", "Eviction only happens for the NoExecute effect."
	case n.Pods > 0:
		c.Status, c.Reason = metav1.ConditionTrue, "PodsPendingEviction"
		c.Message = count(n.Pods, "pod needs to be evicted in ", "pods need to be evicted in ") + count(n.Namespaces, "namespace.", "different namespaces.")
	case n.Evicted > 0:
		c.Reason = "Completed"
	default:
		c.Reason = "NotStarted"
	}
	if n.Evicted > 0 {
		if c.Message != "" {
			c.Message += " "
		}
		c.Message += count(n.Evicted, "pod ", "pods ") + "evicted since starting the controller."
	}
	return c
}

// count is a number with what there is one or several of.
func count(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
