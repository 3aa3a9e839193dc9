// Package podautoscaler changes the number of a target's replicas with what its pods use, or with any other metric.
package podautoscaler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Config is what autoscalers have in common.
type Config struct {
	// Period is how often each is looked at; at most Workers at the same time.
	Period  time.Duration
	Workers int
	// Stabilization is for how long no fewer replicas are taken than were recommended, where a behavior does not say it.
	Stabilization time.Duration
	// Tolerance is by which share of its target a metric may be off, where a behavior does not say it.
	Tolerance float64
	Readiness Readiness
	// ToZero lets targets have no replicas that are scaled by metrics of objects or from outside.
	ToZero bool
}

// Observed is what an autoscaler's target and metrics are like.
type Observed struct {
	// Wanted are the replicas that the target's scale asks for, Replicas those that it has.
	Wanted, Replicas int32
	// Pods are those that the scale selects. Selector is what is wrong with them, if anything.
	Pods     []*corev1.Pod
	Selector *Problem
	// Readings are one for each metric, where Asks says that they are needed.
	Readings []Reading
}

// Problem is why a selector is of no use.
type Problem struct{ event, reason, text, message string }

// Event is one to be told of the autoscaler.
type Event struct{ Type, Reason, Message string }

// Plan is what to do about an autoscaler.
type Plan struct {
	// Status is what it is to be, unless Scale changes it.
	Status autoscalingv2.HorizontalPodAutoscalerStatus
	// Scale says that the target is to have Replicas replicas, for the Reason.
	Scale    bool
	Replicas int32
	Reason   string
	Events   []Event
	// Failure is why nothing, or not all, could be judged. Spec says that it is the autoscaler's own fault.
	Failure error
	Spec    bool
	// Memory is what to remember.
	Memory Memory
	// Judged is what became of each metric.
	Judged []Verdict

	from   int32 // replicas
	toZero bool  // nobody but this controller takes the last replica
}

// Verdict is how a metric was judged: by how many replicas it asks for.
type Verdict struct {
	Type     autoscalingv2.MetricSourceType
	Replicas int32
	Err      error
	Spec     bool
}

// unable is the status of an autoscaler whose target's scale cannot be read.
func unable(status autoscalingv2.HorizontalPodAutoscalerStatus, err error, now time.Time) autoscalingv2.HorizontalPodAutoscalerStatus {
	status = *status.DeepCopy()
	set(&status, autoscalingv2.AbleToScale, false, "FailedGetScale", fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", err), now)
	return status
}

// Asks says whether an autoscaler is to look at its metrics, with the replicas that its target wants.
func Asks(h *autoscalingv2.HorizontalPodAutoscaler, wanted int32, cfg Config) bool {
	if wanted == 0 {
		return cfg.ToZero && emptied(&h.Status) && (least(h) != 0 || outside(h))
	}
	return wanted <= h.Spec.MaxReplicas && wanted >= least(h)
}

// least is how many replicas the target has at least.
func least(h *autoscalingv2.HorizontalPodAutoscaler) int32 { return ptr.Deref(h.Spec.MinReplicas, 1) }

// outside says whether a metric can be read while there are no pods.
func outside(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	return slices.ContainsFunc(h.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	})
}

// emptied says whether it was this controller that took the last replica.
func emptied(s *autoscalingv2.HorizontalPodAutoscalerStatus) bool {
	return slices.ContainsFunc(s.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == autoscalingv2.ScaledToZero && c.Status == corev1.ConditionTrue
	})
}

const belowLeast = "Current number of replicas below Spec.MinReplicas"

// Decide returns what to do about an autoscaler whose target's scale was read.
func Decide(h *autoscalingv2.HorizontalPodAutoscaler, seen Observed, m Memory, cfg Config, now time.Time) Plan {
	p := Plan{Status: *h.Status.DeepCopy(), Memory: m.begun(seen.Wanted, now), Replicas: seen.Wanted, from: seen.Wanted}
	set(&p.Status, autoscalingv2.AbleToScale, true, "SucceededGetScale", "the HPA controller was able to get the target's current scale", now)
	p.Status.CurrentReplicas = seen.Wanted
	p.Status.CurrentMetrics = nil
	switch {
	case Asks(h, seen.Wanted, cfg):
		if !p.judge(h, seen, cfg, now) {
			return p
		}
	case seen.Wanted == 0:
		set(&p.Status, autoscalingv2.ScalingActive, false, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero", now)
		if !cfg.ToZero {
			unset(&p.Status, autoscalingv2.ScaledToZero)
		}
	case seen.Wanted > h.Spec.MaxReplicas:
		p.Replicas, p.Reason = h.Spec.MaxReplicas, "Current number of replicas above Spec.MaxReplicas"
	default:
		p.Replicas, p.Reason = least(h), belowLeast
	}
	p.Scale = p.Replicas != seen.Wanted
	p.Status.DesiredReplicas = p.Replicas
	p.toZero = p.Replicas == 0 && least(h) == 0 && outside(h)
	return p
}

// judge finds out how many replicas the metrics ask for: the most that any of them does. Those that cannot be read are left out, unless
// replicas would be removed: they might have asked for more. It returns false where nothing can be said.
func (p *Plan) judge(h *autoscalingv2.HorizontalPodAutoscaler, seen Observed, cfg Config, now time.Time) bool {
	wanted, name, ok := p.most(h, seen, cfg, now)
	if !ok {
		p.Events = append(p.Events, Event{corev1.EventTypeWarning, "FailedComputeMetricsReplicas", p.Failure.Error()})
		return false
	}
	switch {
	case wanted > seen.Wanted:
		p.Reason = name + " above target"
	case wanted < seen.Wanted:
		p.Reason = "All metrics below target"
	}
	s := settle(wanted, bounds{seen.Wanted, least(h), h.Spec.MaxReplicas}, h.Spec.Behavior, cfg.Stabilization, p.Memory, now)
	p.Memory, p.Replicas = s.memory, s.replicas
	set(&p.Status, autoscalingv2.AbleToScale, true, s.steady.reason, s.steady.message, now)
	set(&p.Status, autoscalingv2.ScalingLimited, s.isLimit, s.limited.reason, s.limited.message, now)
	if seen.Wanted == 0 && p.Replicas < least(h) {
		p.Replicas = least(h)
		if p.Reason == "" {
			p.Reason = belowLeast
		}
	}
	return true
}

// most returns the highest number of replicas that a metric asks for, and which one that is; or false and Failure.
func (p *Plan) most(h *autoscalingv2.HorizontalPodAutoscaler, seen Observed, cfg Config, now time.Time) (replicas int32, name string, ok bool) {
	if s := seen.Selector; s != nil {
		p.Events = append(p.Events, Event{corev1.EventTypeWarning, s.event, s.text})
		set(&p.Status, autoscalingv2.ScalingActive, false, s.reason, s.message, now)
		p.Failure = errors.New(s.text)
		return 0, "", false
	}
	b := bench{seen.Wanted, seen.Replicas, seen.Pods, tolerancesOf(h, cfg), cfg.Readiness, now}
	p.Status.CurrentMetrics = make([]autoscalingv2.MetricStatus, len(h.Spec.Metrics))
	var first *failure
	failures := 0
	for i, m := range h.Spec.Metrics {
		j := b.judge(m, seen.Readings[i])
		p.Judged = append(p.Judged, Verdict{Type: m.Type, Replicas: j.replicas})
		if f := j.failure; f != nil {
			last := &p.Judged[len(p.Judged)-1]
			last.Err, last.Spec = f.err, f.spec
			p.Events = append(p.Events, Event{corev1.EventTypeWarning, f.reason, f.cause.Error()})
			failures++
			if first == nil {
				first = f
			}
			continue
		}
		p.Status.CurrentMetrics[i] = j.status
		if replicas == 0 || j.replicas > replicas {
			replicas, name = j.replicas, j.name
		}
	}
	if first != nil {
		p.Failure, p.Spec = fmt.Errorf("invalid metrics (%d invalid out of %d), first error is: %w", failures, len(h.Spec.Metrics), first.err), first.spec
		if failures == len(h.Spec.Metrics) || replicas < seen.Wanted {
			set(&p.Status, autoscalingv2.ScalingActive, false, first.reason, "the HPA was unable to compute the replica count: "+first.cause.Error(), now)
			return 0, "", false
		}
	}
	set(&p.Status, autoscalingv2.ScalingActive, true, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from "+name, now)
	return replicas, name, true
}

// tolerancesOf are those of an autoscaler's behavior, or of all.
func tolerancesOf(h *autoscalingv2.HorizontalPodAutoscaler, cfg Config) Tolerances {
	t := Tolerances{cfg.Tolerance, cfg.Tolerance}
	if b := h.Spec.Behavior; b != nil {
		if b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
			t.Down = b.ScaleDown.Tolerance.AsApproximateFloat64()
		}
		if b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
			t.Up = b.ScaleUp.Tolerance.AsApproximateFloat64()
		}
	}
	return t
}

// scaled returns the plan when its target has been scaled, or could not be.
func (p Plan) scaled(h *autoscalingv2.HorizontalPodAutoscaler, cfg Config, err error, now time.Time) Plan {
	p.Status = *p.Status.DeepCopy()
	if err != nil {
		p.Events = append(slices.Clip(p.Events), Event{
			corev1.EventTypeWarning, "FailedRescale", fmt.Sprintf("New size: %d; reason: %s; error: %v", p.Replicas, p.Reason, err),
		})
		set(&p.Status, autoscalingv2.AbleToScale, false, "FailedUpdateScale", fmt.Sprintf("the HPA controller was unable to update the target scale: %v", err), now)
		p.Status.DesiredReplicas = h.Status.DesiredReplicas
		return p
	}
	p.Events = append(slices.Clip(p.Events), Event{corev1.EventTypeNormal, "SuccessfulRescale", fmt.Sprintf("New size: %d; reason: %s", p.Replicas, p.Reason)})
	set(&p.Status, autoscalingv2.AbleToScale, true, "SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", p.Replicas), now)
	p.Status.LastScaleTime = ptr.To(metav1.NewTime(now))
	switch {
	case !cfg.ToZero:
		unset(&p.Status, autoscalingv2.ScaledToZero)
	case p.toZero:
		set(&p.Status, autoscalingv2.ScaledToZero, true, "ScaledToZero", "the HPA controller scaled the workload to zero", now)
	default:
		set(&p.Status, autoscalingv2.ScaledToZero, false, "NotScaledToZero", "the HPA controller did not scale the workload to zero", now)
	}
	if h.Spec.Behavior != nil {
		p.Memory = p.Memory.scaled(p.from, p.Replicas, now)
	}
	return p
}

// same says whether two statuses mean the same.
func same(a, b *autoscalingv2.HorizontalPodAutoscalerStatus) bool {
	return equality.Semantic.DeepEqual(a, b)
}

// set sets a condition. Its time is that of its last change between true and false.
func set(s *autoscalingv2.HorizontalPodAutoscalerStatus, kind autoscalingv2.HorizontalPodAutoscalerConditionType, holds bool, reason, message string, now time.Time) {
	status := corev1.ConditionFalse
	if holds {
		status = corev1.ConditionTrue
	}
	i := slices.IndexFunc(s.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == kind })
	if i < 0 {
		i = len(s.Conditions)
		s.Conditions = append(s.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind})
	}
	c := &s.Conditions[i]
	if c.Status != status {
		c.LastTransitionTime = metav1.NewTime(now)
	}
	c.Status, c.Reason, c.Message = status, reason, message
}

// unset removes a condition.
func unset(s *autoscalingv2.HorizontalPodAutoscalerStatus, kind autoscalingv2.HorizontalPodAutoscalerConditionType) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == kind })
}
