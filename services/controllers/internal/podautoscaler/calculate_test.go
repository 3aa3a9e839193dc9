package podautoscaler

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// worker is a pod that has been ready for an hour and requests so many thousandths of a CPU, in one container.
func worker(name string, request int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "web"}}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(request, resource.DecimalSI),
	}}}}
	start := metav1.NewTime(now.Add(-time.Hour))
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start, Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: start},
	}}
	return p
}

// changed returns the pod with a change.
func changed(p *corev1.Pod, how ...func(*corev1.Pod)) *corev1.Pod {
	for _, f := range how {
		f(p)
	}
	return p
}

func pending(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }
func failed(p *corev1.Pod)  { p.Status.Phase = corev1.PodFailed }
func leaving(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }

// started makes the pod start so long ago, and its readiness become what it is so long ago.
func started(ago time.Duration, ready bool, since time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.StartTime = &metav1.Time{Time: now.Add(-ago)}
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-since))
		p.Status.Conditions[0].Status = corev1.ConditionFalse
		if ready {
			p.Status.Conditions[0].Status = corev1.ConditionTrue
		}
	}
}

// workers are pods a, b, c … that request so much each.
func workers(requests ...int64) []*corev1.Pod {
	var pods []*corev1.Pod
	for i, r := range requests {
		pods = append(pods, worker(string(rune('a'+i)), r))
	}
	return pods
}

// samplesOf are samples of pods a, b, c …; a negative one is missing.
func samplesOf(values ...int64) Samples {
	s := Samples{}
	for i, v := range values {
		if v >= 0 {
			s[string(rune('a'+i))] = Sample{Value: v, At: now, Window: time.Minute}
		}
	}
	return s
}

var (
	plain     = Tolerances{0.1, 0.1}
	readiness = Readiness{CPUInitialization: 5 * time.Minute, InitialDelay: 30 * time.Second}
)

func TestUtilization(t *testing.T) {
	t.Parallel()
	half := workers(200, 200, 200, 200)
	for name, test := range map[string]struct {
		current, target int32
		pods            []*corev1.Pod
		samples         Samples
		tolerances      Tolerances
		want            int32
		use             use
		err             string
	}{
		// The documentation: of 200m that are wanted to be 100m, the ratio is 2.0; of 50m it is 0.5.
		"twice the target doubles":                           {current: 1, target: 50, pods: workers(200), samples: samplesOf(200), want: 2, use: use{100, 200}},
		"half the target halves":                             {current: 4, target: 50, pods: half, samples: samplesOf(50, 50, 50, 50), want: 2, use: use{25, 50}},
		"halves are rounded up":                              {current: 3, target: 50, pods: workers(200, 200, 200), samples: samplesOf(50, 50, 50), want: 2, use: use{25, 50}},
		"at the target nothing happens":                      {current: 3, target: 50, pods: workers(200, 200, 200), samples: samplesOf(100, 100, 100), want: 3, use: use{50, 100}},
		"ten percent above is within the tolerance":          {current: 2, target: 50, pods: workers(200, 200), samples: samplesOf(110, 110), want: 2, use: use{55, 110}},
		"more is not":                                        {current: 2, target: 50, pods: workers(200, 200), samples: samplesOf(112, 112), want: 3, use: use{56, 112}},
		"ten percent below is within the tolerance":          {current: 10, target: 50, pods: workers(200, 200), samples: samplesOf(90, 90), want: 10, use: use{45, 90}},
		"a tolerance of its own for scaling up":              {current: 2, target: 50, pods: workers(200, 200), samples: samplesOf(110, 110), tolerances: Tolerances{0.1, 0.05}, want: 3, use: use{55, 110}},
		"and one for scaling down":                           {current: 2, target: 50, pods: workers(200, 200), samples: samplesOf(50, 50), tolerances: Tolerances{0.6, 0.05}, want: 2, use: use{25, 50}},
		"none at all":                                        {current: 2, target: 50, pods: workers(200, 200), samples: samplesOf(102, 102), tolerances: Tolerances{1e-9, 1e-9}, want: 3, use: use{51, 102}},
		"pods weigh as much as they request":                 {current: 2, target: 50, pods: workers(100, 300), samples: samplesOf(100, 100), want: 2, use: use{50, 100}},
		"percentages are whole":                              {current: 3, target: 30, pods: workers(1000, 1000, 1000), samples: samplesOf(300, 500, 700), want: 5, use: use{50, 500}},
		"a missing pod uses nothing while others grow":       {current: 3, target: 50, pods: workers(200, 200, 200), samples: samplesOf(200, 200, -1), want: 4, use: use{100, 200}},
		"and so may keep them from growing":                  {current: 2, target: 50, pods: workers(200, 200), samples: samplesOf(200, -1), want: 2, use: use{100, 200}},
		"a missing pod uses all while others shrink":         {current: 4, target: 80, pods: half, samples: samplesOf(20, 20, 20, -1), want: 2, use: use{10, 20}},
		"or the target where that is more":                   {current: 4, target: 200, pods: half, samples: samplesOf(40, 40, 40, -1), want: 2, use: use{20, 40}},
		"and turns shrinking into nothing, not growth":       {current: 2, target: 50, pods: workers(200, 1000), samples: samplesOf(20, -1), want: 2, use: use{10, 20}},
		"missing pods beyond the replicas add none":          {current: 1, target: 50, pods: half, samples: samplesOf(200, -1, 60, -1), want: 1, use: use{65, 130}},
		"a pod on its way out counts for nothing":            {current: 2, target: 50, pods: []*corev1.Pod{worker("a", 200), worker("b", 200), changed(worker("c", 200), leaving)}, samples: samplesOf(200, 200, 200), want: 4, use: use{100, 200}},
		"nor does one that failed":                           {current: 2, target: 50, pods: []*corev1.Pod{worker("a", 200), worker("b", 200), changed(worker("c", 200), failed)}, samples: samplesOf(200, 200), want: 4, use: use{100, 200}},
		"a pending pod uses nothing while others grow":       {current: 3, target: 50, pods: []*corev1.Pod{worker("a", 200), worker("b", 200), changed(worker("c", 200), pending)}, samples: samplesOf(200, 200), want: 4, use: use{100, 200}},
		"and is left out while they shrink":                  {current: 3, target: 50, pods: []*corev1.Pod{worker("a", 200), worker("b", 200), changed(worker("c", 200), pending)}, samples: samplesOf(20, 20), want: 1, use: use{10, 20}},
		"a starting pod's load does not count":               {current: 2, target: 50, pods: []*corev1.Pod{worker("a", 200), changed(worker("b", 200), started(time.Minute, false, time.Minute))}, samples: samplesOf(100, 200), want: 2, use: use{50, 100}},
		"samples of nobody do not count":                     {current: 1, target: 50, pods: workers(200), samples: samplesOf(100, 900), want: 1, use: use{50, 100}},
		"no samples but of starting pods":                    {current: 1, target: 50, pods: []*corev1.Pod{changed(worker("a", 200), pending)}, samples: samplesOf(100), err: "did not receive metrics for targeted pods (pods might be unready)"},
		"only samples of others":                             {current: 1, target: 50, pods: workers(200), samples: Samples{"x": {Value: 1}}, err: "no metrics returned matched known pods"},
		"no pods":                                            {current: 1, target: 50, samples: samplesOf(100), err: "no pods returned by selector while calculating replica count"},
		"no request":                                         {current: 1, target: 50, pods: []*corev1.Pod{changed(worker("a", 1), requestless)}, samples: samplesOf(100), err: "missing request for cpu in container main of Pod a"},
		"no pod-level request":                               {current: 1, target: 50, pods: []*corev1.Pod{changed(worker("a", 1), podLevel(corev1.ResourceMemory, "1Gi"), requestless)}, samples: samplesOf(100), err: "missing pod-level request for cpu in Pod a"},
		"a pod's request is not that of its containers":      {current: 1, target: 50, pods: []*corev1.Pod{changed(worker("a", 1), podLevel(corev1.ResourceCPU, "400m"))}, samples: samplesOf(400), want: 2, use: use{100, 400}},
		"containers that run along request, too":             {current: 1, target: 50, pods: []*corev1.Pod{changed(worker("a", 200), sidecar("200m"))}, samples: samplesOf(400), want: 2, use: use{100, 400}},
		"those that only run before do not":                  {current: 1, target: 50, pods: []*corev1.Pod{changed(worker("a", 200), sidecar("200m"), func(p *corev1.Pod) { p.Spec.InitContainers[0].RestartPolicy = nil })}, samples: samplesOf(200), want: 2, use: use{100, 200}},
		"what replicas there are does not matter for growth": {current: 9, target: 50, pods: workers(200), samples: samplesOf(200), want: 2, use: use{100, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tolerances := test.tolerances
			if tolerances == (Tolerances{}) {
				tolerances = plain
			}
			b := bench{current: test.current, pods: test.pods, tolerances: tolerances, readiness: readiness, now: now}
			before := maps.Clone(test.samples)
			measure, first := utilization(test.target, test.pods, "", corev1.ResourceCPU)
			n, err := b.count(measure, corev1.ResourceCPU, Reading{Samples: test.samples})
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Fatalf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || n != test.want || *first != test.use {
				t.Errorf("%d replicas, used %+v, %v; want %d and %+v", n, *first, err, test.want, test.use)
			}
			if !maps.Equal(before, test.samples) {
				t.Errorf("the samples have become %v", test.samples)
			}
		})
	}
}

func requestless(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil }

func podLevel(name corev1.ResourceName, quantity string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse(quantity)}}
	}
}

func sidecar(quantity string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "side", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(quantity)},
		}}}
	}
}

func TestRequestsOfOneContainer(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{changed(worker("a", 100), sidecar("300m"), podLevel(corev1.ResourceCPU, "9"))}
	for container, want := range map[string]int64{"main": 100, "side": 300} {
		if got, err := requests(pods, container, corev1.ResourceCPU); err != nil || got["a"] != want {
			t.Errorf("%s requests %v, %v", container, got, err)
		}
	}
	if _, err := requests(pods, "other", corev1.ResourceCPU); err == nil || err.Error() != "container other not found in Pod a" {
		t.Errorf("error %v", err)
	}
}

func TestStarting(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pod    func(*corev1.Pod)
		sample time.Duration // ago
		want   bool
	}{
		"it has run for long":                                {started(time.Hour, true, time.Hour), 0, false},
		"ready, with a whole window since":                   {started(2*time.Minute, true, 90*time.Second), 0, false},
		"ready, with a sample of the time before":            {started(2*time.Minute, true, 30*time.Second), 0, true},
		"not ready yet":                                      {started(2*time.Minute, false, 2*time.Minute), 0, true},
		"no longer ready after the initialization":           {started(time.Hour, false, 10*time.Minute), 0, false},
		"never ready, though the initialization is over":     {started(time.Hour, false, time.Hour), 0, true},
		"unready within the initial delay for the last time": {started(time.Hour, false, time.Hour-20*time.Second), 0, true},
		"unready after the initial delay":                    {started(time.Hour, false, time.Hour-40*time.Second), 0, false},
		"no readiness":                                       {func(p *corev1.Pod) { p.Status.Conditions = nil }, 0, true},
		"no start":                                           {func(p *corev1.Pod) { p.Status.StartTime = nil }, 0, true},
	} {
		p := changed(worker("a", 1), test.pod)
		if got := readiness.starting(p, Sample{At: now.Add(-test.sample), Window: time.Minute}, now); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	young := []*corev1.Pod{changed(worker("a", 1), started(time.Minute, false, time.Minute))}
	if c := takeCensus(young, samplesOf(1), corev1.ResourceMemory, readiness, now); c.Ready != 1 {
		t.Errorf("memory of a starting pod does not count: %+v", c)
	}
}

func TestAverage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		current int32
		target  int64
		pods    []*corev1.Pod
		samples Samples
		want    int32
		average int64
	}{
		"above":  {3, 1000, workers(0, 0, 0), samplesOf(2000, 2000, 2000), 6, 2000},
		"below":  {4, 1000, workers(0, 0, 0, 0), samplesOf(200, 200, 200, 200), 1, 200},
		"within": {3, 1000, workers(0, 0, 0), samplesOf(1050, 1050, 1050), 3, 1050},
		"missing pods are at the target while shrinking": {4, 1000, workers(0, 0, 0, 0), samplesOf(100, 100, 100, -1), 2, 100},
		"and at nothing while growing":                   {3, 1000, workers(0, 0, 0), samplesOf(2000, 2000, -1), 4, 2000},
		"samples of others count":                        {1, 1000, workers(0), samplesOf(1000, 3000), 2, 2000},
		"a starting pod counts":                          {2, 1000, []*corev1.Pod{worker("a", 0), changed(worker("b", 0), started(time.Second, false, time.Second))}, samplesOf(2000, 2000), 4, 2000},
	} {
		b := bench{current: test.current, pods: test.pods, tolerances: plain, readiness: readiness, now: now}
		if n, average, err := b.average(test.target, "", Reading{Samples: test.samples}); err != nil || n != test.want || average != test.average {
			t.Errorf("%s: %d replicas, average %d, %v; want %d and %d", name, n, average, err, test.want, test.average)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	three := workers(0, 0, 0)
	for name, test := range map[string]struct {
		current       int32
		value, target int64
		pods          []*corev1.Pod
		want          int32
		err           string
	}{
		"above":            {3, 20, 10, three, 6, ""},
		"within":           {3, 11, 10, three, 3, ""},
		"below":            {3, 1, 10, three, 1, ""},
		"only ready pods":  {3, 20, 10, append(workers(0, 0), changed(worker("c", 0), started(time.Hour, false, time.Hour))), 4, ""},
		"from zero":        {0, 25, 10, nil, 3, ""},
		"staying at zero":  {0, 0, 10, nil, 0, ""},
		"without pods":     {3, 20, 10, nil, 0, "unable to calculate ready pods: no pods returned by selector while calculating replica count"},
		"without bounds":   {3, math.MaxInt64, 1, three, math.MaxInt32, ""},
		"from zero beyond": {0, math.MaxInt64, 1, nil, math.MaxInt32, ""},
	} {
		n, err := byValue(test.current, test.value, test.target, test.pods, plain)
		if n != test.want || fmt.Sprint(err) != text(test.err) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	for name, test := range map[string]struct {
		replicas      int32
		value, target int64
		want          int32
		share         int64
	}{
		"above":          {4, 1000, 100, 10, 250},
		"within":         {4, 420, 100, 4, 105},
		"below":          {4, 150, 100, 2, 38},
		"nothing":        {4, 0, 100, 0, 0},
		"from zero":      {0, 150, 100, 2, 150},
		"without bounds": {4, math.MaxInt64, 1, math.MaxInt32, math.MaxInt64},
	} {
		if n, share := byShare(test.replicas, test.value, test.target, plain); n != test.want || share != test.share {
			t.Errorf("%s: %d replicas with %d each", name, n, share)
		}
	}
	if got := sum([]int64{math.MaxInt64 - 1, 5}); got != math.MaxInt64 {
		t.Errorf("too much is %d", got)
	}
	if got := sum([]int64{1, 2, -4}); got != -1 {
		t.Errorf("the sum is %d", got)
	}
}

// text is how an error is shown.
func text(err string) string {
	if err == "" {
		return "<nil>"
	}
	return err
}
