package podautoscaler

import (
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Sample is what one pod uses of something, in thousandths of its unit: the average over the window that ended at At.
type Sample struct {
	Value  int64
	At     time.Time
	Window time.Duration
}

// Samples are those of pods, by their names.
type Samples map[string]Sample

// Tolerances are how far below and above its target a metric may be without anything being done.
type Tolerances struct{ Down, Up float64 }

func (t Tolerances) holds(ratio float64) bool { return 1-t.Down <= ratio && ratio <= 1+t.Up }

// Census says what there is to know of a target's pods.
type Census struct {
	// Ready is how many count with what they use. Unready ones may use more or less than they will, Missing ones have no sample, and those
	// Aside are on their way out: they count for nothing.
	Ready                   int
	Unready, Missing, Aside []string
}

// Readiness is how young pods are judged.
type Readiness struct {
	// CPUInitialization is how long after its start a pod's CPU counts only while it is ready, and has been for a whole window.
	CPUInitialization time.Duration
	// InitialDelay is how long after its start a pod's readiness may change without the pod having ever been ready.
	InitialDelay time.Duration
}

// takeCensus sorts the pods. Only the CPU of pods that start says little of what they will use; of other resources and metrics
// (resource "") running pods count as they are.
func takeCensus(pods []*corev1.Pod, samples Samples, resource corev1.ResourceName, r Readiness, now time.Time) Census {
	var c Census
	for _, p := range pods {
		sample, found := samples[p.Name]
		switch {
		case p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed:
			c.Aside = append(c.Aside, p.Name)
		case p.Status.Phase == corev1.PodPending:
			c.Unready = append(c.Unready, p.Name)
		case !found:
			c.Missing = append(c.Missing, p.Name)
		case resource == corev1.ResourceCPU && r.starting(p, sample, now):
			c.Unready = append(c.Unready, p.Name)
		default:
			c.Ready++
		}
	}
	return c
}

// starting says whether a pod's CPU is that of its start.
func (r Readiness) starting(p *corev1.Pod, sample Sample, now time.Time) bool {
	ready := condition(p, corev1.PodReady)
	if ready == nil || p.Status.StartTime == nil {
		return true
	}
	unready, since, start := ready.Status == corev1.ConditionFalse, ready.LastTransitionTime.Time, p.Status.StartTime.Time
	if start.Add(r.CPUInitialization).After(now) {
		return unready || sample.At.Before(since.Add(sample.Window))
	}
	// It has had its time. One that was never ready still starts; one that no longer is has its load elsewhere.
	return unready && start.Add(r.InitialDelay).After(since)
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// errNoPods is that a selector selects none.
var errNoPods = errors.New("no pods returned by selector while calculating replica count")

// scale is a measure of samples: their ratio to the target (1 is just right), and what a pod without a sample stands for while pods
// are removed: it must not be the reason for it.
type scale struct {
	ratio   func(Samples) (float64, error)
	standIn func(pod string) int64
}

// byPods returns how many replicas the samples ask for, and measures those that count. samples is changed.
func byPods(current int32, samples Samples, census Census, s scale, tolerances Tolerances) (int32, error) {
	for _, names := range [][]string{census.Aside, census.Unready} {
		for _, name := range names {
			delete(samples, name)
		}
	}
	if len(samples) == 0 {
		return 0, errors.New("did not receive metrics for targeted pods (pods might be unready)")
	}
	first, err := s.ratio(samples)
	if err != nil {
		return 0, err
	}
	growing := first > 1
	if len(census.Missing) == 0 && (len(census.Unready) == 0 || !growing) {
		if tolerances.holds(first) {
			return current, nil
		}
		return roundUp(first * float64(census.Ready)), nil
	}
	// Whoever is not known is taken for what dampens the change.
	for _, name := range census.Missing {
		switch {
		case growing:
			samples[name] = Sample{}
		case first < 1:
			samples[name] = Sample{Value: s.standIn(name)}
		}
	}
	if growing {
		for _, name := range census.Unready {
			samples[name] = Sample{}
		}
	}
	second, err := s.ratio(samples)
	if err != nil {
		return 0, err
	}
	if tolerances.holds(second) || first < 1 && second > 1 || growing && second < 1 {
		return current, nil
	}
	wanted := roundUp(second * float64(len(samples)))
	if second < 1 && wanted > current || second > 1 && wanted < current {
		return current, nil // there are fewer or more pods than replicas: that turns no shrinking into growth
	}
	return wanted, nil
}

// usage measures samples against a target average. average holds that of the first measurement, once there was one.
func usage(target int64) (s scale, average *int64) {
	average = new(int64)
	measured := false
	return scale{
		ratio: func(samples Samples) (float64, error) {
			total := int64(0)
			for _, sample := range samples {
				total += sample.Value
			}
			mean := total / int64(len(samples))
			if !measured {
				*average, measured = mean, true
			}
			return float64(mean) / float64(target), nil
		},
		standIn: func(string) int64 { return target },
	}, average
}

// use is the utilization that was measured first: a percentage of what was requested, and the average.
type use struct {
	percent int32
	average int64
}

// utilization measures samples against a target percentage of what the pods request.
func utilization(target int32, pods []*corev1.Pod, container string, resource corev1.ResourceName) (s scale, first *use) {
	first = &use{}
	var requested map[string]int64
	ratio := func(samples Samples) (float64, error) {
		measured := requested != nil
		if !measured {
			var err error
			if requested, err = requests(pods, container, resource); err != nil {
				return 0, err
			}
		}
		used, wanted, n := int64(0), int64(0), int64(0)
		for name, sample := range samples {
			if request, known := requested[name]; known {
				used, wanted, n = used+sample.Value, wanted+request, n+1
			}
		}
		if wanted == 0 {
			return 0, errors.New("no metrics returned matched known pods")
		}
		percent := int32(used * 100 / wanted)
		if !measured {
			*first = use{percent, used / n}
		}
		return float64(percent) / float64(target), nil
	}
	// Where the target is to use more than was requested, a pod without a sample does just so.
	return scale{ratio, func(pod string) int64 { return requested[pod] * int64(max(100, target)) / 100 }}, first
}

// requests returns what pods request, in thousandths: of one container; or where none is named of the pod as such, or of all its
// containers that run along.
func requests(pods []*corev1.Pod, container string, resource corev1.ResourceName) (map[string]int64, error) {
	requested := make(map[string]int64, len(pods))
	for _, p := range pods {
		var err error
		if container == "" && resourcehelper.IsPodLevelRequestsSet(p) {
			q, ok := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})[resource]
			if !ok {
				return nil, fmt.Errorf("missing pod-level request for %s in Pod %s", resource, p.Name)
			}
			requested[p.Name] = q.MilliValue()
		} else if requested[p.Name], err = requestOf(p, container, resource); err != nil {
			return nil, err
		}
	}
	return requested, nil
}

func requestOf(p *corev1.Pod, container string, resource corev1.ResourceName) (int64, error) {
	total, found := int64(0), false
	for c := range running(p) {
		if container != "" && c.Name != container {
			continue
		}
		q, ok := c.Resources.Requests[resource]
		if !ok {
			return 0, fmt.Errorf("missing request for %s in container %s of Pod %s", resource, c.Name, p.Name)
		}
		total, found = total+q.MilliValue(), true
	}
	if container != "" && !found {
		return 0, fmt.Errorf("container %s not found in Pod %s", container, p.Name)
	}
	return total, nil
}

// running yields the containers that run as long as the pod.
func running(p *corev1.Pod) func(func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for i := range p.Spec.Containers {
			if !yield(&p.Spec.Containers[i]) {
				return
			}
		}
		for i := range p.Spec.InitContainers {
			c := &p.Spec.InitContainers[i]
			if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways && !yield(c) {
				return
			}
		}
	}
}

// byValue returns how many replicas a value asks for that all ready pods together bring to its target. A target without replicas has no
// pods that could tell how much one does: it gets as many as the value is times the target.
func byValue(current int32, value, target int64, pods []*corev1.Pod, tolerances Tolerances) (int32, error) {
	ratio := float64(value) / float64(target)
	if current == 0 {
		return roundUp(ratio), nil
	}
	if tolerances.holds(ratio) {
		return current, nil
	}
	if len(pods) == 0 {
		return 0, fmt.Errorf("unable to calculate ready pods: %w", errNoPods)
	}
	ready := 0
	for _, p := range pods {
		if c := condition(p, corev1.PodReady); p.Status.Phase == corev1.PodRunning && c != nil && c.Status == corev1.ConditionTrue {
			ready++
		}
	}
	return roundUp(ratio * float64(ready)), nil
}

// byShare returns how many replicas a value asks for of which each replica is to have at most the target, and what each has now.
func byShare(replicas int32, value, target int64, tolerances Tolerances) (wanted int32, share int64) {
	wanted, share = replicas, value
	if !tolerances.holds(float64(value) / (float64(target) * float64(replicas))) {
		wanted = roundUp(float64(value) / float64(target))
	}
	if replicas > 0 && value < math.MaxInt64 {
		share = int64(math.Ceil(float64(value) / float64(replicas)))
	}
	return wanted, share
}

// roundUp returns the next whole number of replicas, or as many as there can be.
func roundUp(n float64) int32 {
	if n >= math.MaxInt32 {
		return math.MaxInt32
	}
	return int32(math.Ceil(n))
}

// sum adds up values; what is too much is the most.
func sum(values []int64) int64 {
	total := int64(0)
	for _, v := range values {
		if v > 0 && total > math.MaxInt64-v {
			return math.MaxInt64
		}
		total += v
	}
	return total
}
