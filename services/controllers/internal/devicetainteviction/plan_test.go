package devicetainteviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/services/internal/devicetaint"
)

// using is a claim of a pod for devices of the pool n of the driver d.
func using(user string, tolerations []resourcev1.DeviceToleration, devices ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: user, UID: types.UID(user)}}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, name := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{
			Request: "r", Driver: "d", Pool: "n", Device: name, Tolerations: tolerations,
		})
	}
	return c
}

func tolerate(key string, effect resourcev1.DeviceTaintEffect, seconds *int64) resourcev1.DeviceToleration {
	return resourcev1.DeviceToleration{Key: key, Operator: resourcev1.DeviceTolerationOpExists, Effect: effect, TolerationSeconds: seconds}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const execute, schedule = resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule
	now := time.Unix(1_700_000_000, 0)
	added := metav1.NewTime(now.Add(-100 * time.Second))
	rule := &devicetaint.Rule{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "r"}}
	taints := func(_, _, device string) []Taint {
		taint := func(key string, by *devicetaint.Rule) Taint {
			return Taint{DeviceTaint: resourcev1.DeviceTaint{Key: key, Effect: execute, TimeAdded: &added}, Rule: by}
		}
		switch device {
		case "broken":
			return []Taint{taint("broken", nil)}
		case "both":
			return []Taint{taint("broken", nil), taint("ruled", rule)}
		case "ruled":
			return []Taint{taint("ruled", rule)}
		}
		return nil
	}
	always := []resourcev1.DeviceToleration{tolerate("broken", execute, nil)}
	seconds := func(n int64) []resourcev1.DeviceToleration {
		return []resourcev1.DeviceToleration{tolerate("broken", execute, ptr.To(n))}
	}
	over := Plan{Goes: true, Evict: true, Due: added.Time}
	left := func(n int) Plan {
		return Plan{Goes: true, Due: now.Add(time.Duration(n) * time.Second), After: time.Duration(n) * time.Second}
	}
	by := func(p Plan) Plan { p.Rules = []*devicetaint.Rule{rule}; return p }
	for what, c := range map[string]struct {
		change func(*corev1.Pod)
		claims []*resourcev1.ResourceClaim
		want   Plan
	}{
		"no claim":                            {},
		"a sound device":                      {claims: []*resourcev1.ResourceClaim{using("p", nil, "a")}},
		"a broken one":                        {claims: []*resourcev1.ResourceClaim{using("p", nil, "broken")}, want: over},
		"of another pod":                      {claims: []*resourcev1.ResourceClaim{using("q", nil, "broken")}},
		"the pod has no node":                 {change: func(p *corev1.Pod) { p.Spec.NodeName = "" }, claims: []*resourcev1.ResourceClaim{using("p", nil, "broken")}},
		"the pod has ended":                   {change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, claims: []*resourcev1.ResourceClaim{using("p", nil, "broken")}},
		"the pod goes":                        {change: func(p *corev1.Pod) { p.DeletionTimestamp = &added }, claims: []*resourcev1.ResourceClaim{using("p", nil, "broken")}},
		"not allocated":                       {claims: []*resourcev1.ResourceClaim{{Status: resourcev1.ResourceClaimStatus{ReservedFor: using("p", nil).Status.ReservedFor}}}},
		"tolerated":                           {claims: []*resourcev1.ResourceClaim{using("p", always, "broken")}},
		"all is tolerated":                    {claims: []*resourcev1.ResourceClaim{using("p", []resourcev1.DeviceToleration{tolerate("", "", nil)}, "both")}},
		"seconds are of NoExecute":            {claims: []*resourcev1.ResourceClaim{using("p", []resourcev1.DeviceToleration{tolerate("", "", ptr.To[int64](1))}, "broken")}},
		"another effect is tolerated":         {claims: []*resourcev1.ResourceClaim{using("p", []resourcev1.DeviceToleration{tolerate("broken", schedule, nil)}, "broken")}, want: over},
		"another key is tolerated":            {claims: []*resourcev1.ResourceClaim{using("p", []resourcev1.DeviceToleration{tolerate("other", execute, nil)}, "broken")}, want: over},
		"tolerated for a while":               {claims: []*resourcev1.ResourceClaim{using("p", seconds(300), "broken")}, want: left(200)},
		"the while is over":                   {claims: []*resourcev1.ResourceClaim{using("p", seconds(100), "broken")}, want: Plan{Goes: true, Evict: true, Due: now}},
		"for less than nothing":               {claims: []*resourcev1.ResourceClaim{using("p", seconds(-5), "broken")}, want: over},
		"the shortest of two":                 {claims: []*resourcev1.ResourceClaim{using("p", append(seconds(300), seconds(150)...), "broken")}, want: left(50)},
		"one of two without end":              {claims: []*resourcev1.ResourceClaim{using("p", append(seconds(300), always...), "broken")}},
		"by a rule":                           {claims: []*resourcev1.ResourceClaim{using("p", nil, "ruled")}, want: by(over)},
		"by a rule that another taint is not": {claims: []*resourcev1.ResourceClaim{using("p", always, "both")}, want: by(over)},
		"by a rule, twice":                    {claims: []*resourcev1.ResourceClaim{using("p", nil, "ruled", "ruled")}, want: by(over)},
		"the first of two claims": {claims: []*resourcev1.ResourceClaim{
			using("p", seconds(300), "broken"), using("p", []resourcev1.DeviceToleration{tolerate("ruled", execute, ptr.To[int64](110))}, "ruled"),
		}, want: by(left(10))},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
		if c.change != nil {
			c.change(p)
		}
		got := Decide(p, c.claims, taints, now)
		if got.Goes != c.want.Goes || got.Evict != c.want.Evict || got.After != c.want.After || !got.Due.Equal(c.want.Due) || len(got.Rules) != len(c.want.Rules) {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
	// However long: no time turns over.
	if got := Decide(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p"}, Spec: corev1.PodSpec{NodeName: "n"}},
		[]*resourcev1.ResourceClaim{using("p", seconds(1<<62), "broken")}, taints, now); !got.Goes || got.Evict || got.After < 200*365*24*time.Hour {
		t.Errorf("for ages: %+v", got)
	}
}
