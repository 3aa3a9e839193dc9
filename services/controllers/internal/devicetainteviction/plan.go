// Package devicetainteviction ends pods that use devices whose NoExecute taints their claims do not tolerate, or no longer, and tells in
// DeviceTaintRules how far that has come.
package devicetainteviction

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"howdah.dev/services/controllers/internal/pod"
	"howdah.dev/services/internal/devicetaint"
)

// Taint is one of a device that ends pods.
type Taint struct {
	resourcev1.DeviceTaint
	// Rule is where it is from, nil where that is the device's driver.
	Rule *devicetaint.Rule
}

// Taints returns those of a device.
type Taints func(driver, pool, device string) []Taint

// Plan is what to do with one pod.
type Plan struct {
	// Goes says that the pod is to be ended, now or when it is due; Evict, that it is due.
	Goes, Evict bool
	// Due is when; the zero time is at once. After is what is left until then.
	Due   time.Time
	After time.Duration
	// Rules are those whose taints are among the reasons.
	Rules []*devicetaint.Rule
}

// Decide plans one pod with the claims that are reserved for it. The first taint that is over decides; one that is tolerated for some seconds counts
// from when it was added.
func Decide(p *corev1.Pod, claims []*resourcev1.ResourceClaim, taints Taints, now time.Time) Plan {
	var plan Plan
	if p.Spec.NodeName == "" || !pod.Active(p) {
		return plan
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil || !ReservedFor(claim, p.UID) {
			continue
		}
		for _, device := range claim.Status.Allocation.Devices.Results {
			for _, taint := range taints(device.Driver, device.Pool, device.Device) {
				due, ends := tolerated(taint.DeviceTaint, device.Tolerations)
				if !ends {
					continue
				}
				if !plan.Goes || due.Before(plan.Due) {
					plan.Due = due
				}
				plan.Goes = true
				if taint.Rule != nil && !slices.ContainsFunc(plan.Rules, func(r *devicetaint.Rule) bool { return r.UID == taint.Rule.UID }) {
					plan.Rules = append(plan.Rules, taint.Rule)
				}
			}
		}
	}
	plan.Evict = plan.Goes && !now.Before(plan.Due)
	if plan.Goes && !plan.Evict {
		plan.After = plan.Due.Sub(now)
	}
	return plan
}

// tolerated returns when the tolerance of a taint ends: when it was added, where nothing tolerates it. ends is false where it never does. Of several
// tolerations the shortest counts, unless one is without end. Seconds are those of tolerations of the effect NoExecute alone.
func tolerated(t resourcev1.DeviceTaint, tolerations []resourcev1.DeviceToleration) (due time.Time, ends bool) {
	seconds, found := int64(math.MaxInt64), false
	for _, toleration := range tolerations {
		if !resourceclaim.ToleratesTaint(toleration, t) {
			continue
		}
		if toleration.Effect != resourcev1.DeviceTaintEffectNoExecute || toleration.TolerationSeconds == nil {
			return due, false
		}
		seconds, found = min(seconds, max(0, *toleration.TolerationSeconds)), true
	}
	if t.TimeAdded != nil {
		due = t.TimeAdded.Time
	}
	if found {
		due = later(due, seconds)
	}
	return due, true
}

// later is t some seconds on, or as far as time goes.
func later(t time.Time, seconds int64) time.Time {
	const most = 1 << 40 // seconds, 35,000 years: further, times and durations would turn over
	return time.Unix(t.Unix()+min(seconds, most), int64(t.Nanosecond()))
}

// ReservedFor reports whether a pod uses a claim.
func ReservedFor(claim *resourcev1.ResourceClaim, uid types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return isPod(r) && r.UID == uid })
}

func isPod(r resourcev1.ResourceClaimConsumerReference) bool {
	return r.APIGroup == "" && r.Resource == "pods"
}
