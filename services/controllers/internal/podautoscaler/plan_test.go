package podautoscaler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

var usual = Config{Period: 15 * time.Second, Workers: 1, Stabilization: window, Tolerance: 0.1, Readiness: readiness}

// scaler keeps the CPU of web at half of what is requested, with 2 to 10 replicas.
func scaler(change ...func(*autoscalingv2.HorizontalPodAutoscaler)) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	h.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		MinReplicas:    ptr.To[int32](2), MaxReplicas: 10, Metrics: []autoscalingv2.MetricSpec{cpu(50)},
	}
	for _, f := range change {
		f(h)
	}
	return h
}

func cpu(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
	}}
}

func external(target string, average bool) autoscalingv2.MetricSpec {
	q := resource.MustParse(target)
	m := &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "queue", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"q": "a"}}}}
	if m.Target.Value = &q; average {
		m.Target = autoscalingv2.MetricTarget{AverageValue: &q}
	}
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: m}
}

func described(target string, average bool) autoscalingv2.MetricSpec {
	q := resource.MustParse(target)
	m := &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "front"},
		Metric:          autoscalingv2.MetricIdentifier{Name: "requests"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: &q},
	}
	if average {
		m.Target = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &q}
	}
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: m}
}

func perPod(target string) autoscalingv2.MetricSpec {
	q := resource.MustParse(target)
	return autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "packets"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &q},
	}}
}

func metrics(all ...autoscalingv2.MetricSpec) func(*autoscalingv2.HorizontalPodAutoscaler) {
	return func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.Metrics = all }
}

// told is a status' conditions and a plan's events as text.
func told(p Plan) string {
	var b strings.Builder
	for _, c := range p.Status.Conditions {
		fmt.Fprintf(&b, "%s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	for _, e := range p.Events {
		fmt.Fprintf(&b, "%s %s: %s\n", e.Type, e.Reason, e.Message)
	}
	return b.String()
}

const found = "AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale\n"

func TestDecide(t *testing.T) {
	t.Parallel()
	none := errors.New("unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)")
	four := workers(200, 200, 200, 200)
	for name, test := range map[string]struct {
		h        *autoscalingv2.HorizontalPodAutoscaler
		seen     Observed
		replicas int32
		desired  int32
		reason   string
		told     string
		metrics  string
	}{
		"more": {
			scaler(), Observed{Wanted: 4, Replicas: 4, Pods: four, Readings: []Reading{{Samples: samplesOf(200, 200, 200, 200)}}}, 8, 8,
			"cpu resource utilization (percentage of request) above target",
			"AbleToScale=True ReadyForNewScale: recommended size matches current size\n" +
				"ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)\n" +
				"ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range\n", "[cpu 100% 200m]",
		},
		"too many": {
			scaler(), Observed{Wanted: 8, Replicas: 8, Pods: four, Readings: []Reading{{Samples: samplesOf(600, 600, 600, 600)}}}, 10, 10,
			"cpu resource utilization (percentage of request) above target",
			"AbleToScale=True ReadyForNewScale: recommended size matches current size\n" +
				"ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)\n" +
				"ScalingLimited=True TooManyReplicas: the desired replica count is more than the maximum replica count\n", "[cpu 300% 600m]",
		},
		"fewer, not yet": {
			scaler(), Observed{Wanted: 4, Replicas: 4, Pods: four, Readings: []Reading{{Samples: samplesOf(40, 40, 40, 40)}}}, 4, 4, "All metrics below target",
			"AbleToScale=True ScaleDownStabilized: recent recommendations were higher than current one, applying the highest recent recommendation\n" +
				"ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)\n" +
				"ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range\n", "[cpu 20% 40m]",
		},
		"no metric": {
			scaler(), Observed{Wanted: 4, Replicas: 4, Pods: four, Readings: []Reading{{Err: none}}}, 4, 0, "",
			found + "ScalingActive=False FailedGetResourceMetric: the HPA was unable to compute the replica count: failed to get cpu utilization: " + none.Error() + "\n" +
				"Warning FailedGetResourceMetric: failed to get cpu utilization: " + none.Error() + "\n" +
				"Warning FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to get cpu utilization: " + none.Error() + "\n", "[-]",
		},
		"one metric of two asks for more": {
			scaler(metrics(external("10", false), cpu(50))),
			Observed{Wanted: 4, Replicas: 4, Pods: four, Readings: []Reading{{Err: errors.New("gone")}, {Samples: samplesOf(200, 200, 200, 200)}}}, 8, 8,
			"cpu resource utilization (percentage of request) above target",
			"AbleToScale=True ReadyForNewScale: recommended size matches current size\n" +
				"ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)\n" +
				"ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range\n" +
				"Warning FailedGetExternalMetric: gone\n", "[- cpu 100% 200m]",
		},
		"one metric of two asks for fewer": {
			scaler(metrics(external("10", false), cpu(50))),
			Observed{Wanted: 4, Replicas: 4, Pods: four, Readings: []Reading{{Err: errors.New("gone")}, {Samples: samplesOf(20, 20, 20, 20)}}}, 4, 0, "",
			found + "ScalingActive=False FailedGetExternalMetric: the HPA was unable to compute the replica count: gone\n" +
				"Warning FailedGetExternalMetric: gone\n" +
				"Warning FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 2), first error is: failed to get queue external metric value: failed to get external metric queue: gone\n", "[- cpu 10% 20m]",
		},
		"the most of all metrics": {
			scaler(metrics(cpu(50), perPod("1"), described("10", false), described("2", true), external("1", true))),
			Observed{Wanted: 4, Replicas: 4, Pods: four, Readings: []Reading{
				{Samples: samplesOf(125, 125, 125, 125)}, {Samples: samplesOf(1400, 1400, 1400, 1400)}, {Value: 12000}, {Value: 14000}, {Value: 6500},
			}}, 7, 7, "external metric requests(nil) above target",
			"AbleToScale=True ReadyForNewScale: recommended size matches current size\n" +
				"ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from external metric requests(nil)\n" +
				"ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range\n",
			"[cpu 62% 125m packets 1400m Ingress/front requests 12 Ingress/front requests avg 3500m queue avg 1625m]",
		},
		"above the most": {
			scaler(), Observed{Wanted: 12}, 10, 10, "Current number of replicas above Spec.MaxReplicas", found, "[]",
		},
		"below the least": {
			scaler(), Observed{Wanted: 1}, 2, 2, "Current number of replicas below Spec.MinReplicas", found, "[]",
		},
		"switched off": {
			scaler(), Observed{}, 0, 0, "", found + "ScalingActive=False ScalingDisabled: scaling is disabled since the replica count of the target is zero\n", "[]",
		},
		"no selector": {
			scaler(), Observed{Wanted: 4, Selector: &Problem{"SelectorRequired", "InvalidSelector", "selector is required", "the HPA target's scale is missing a selector"}}, 4, 0, "",
			found + "ScalingActive=False InvalidSelector: the HPA target's scale is missing a selector\nWarning SelectorRequired: selector is required\nWarning FailedComputeMetricsReplicas: selector is required\n", "[]",
		},
		"a metric of no kind": {
			scaler(metrics(autoscalingv2.MetricSpec{Type: "Other"})), Observed{Wanted: 4, Pods: four, Readings: []Reading{{}}}, 4, 0, "",
			found + "ScalingActive=False InvalidMetricSourceType: the HPA was unable to compute the replica count: unknown metric source type \"Other\"\n" +
				"Warning InvalidMetricSourceType: unknown metric source type \"Other\"\n" +
				"Warning FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: unknown metric source type \"Other\"\n", "[-]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Decide(test.h, test.seen, Memory{}, usual, now)
			if p.Replicas != test.replicas || p.Scale != (test.replicas != test.seen.Wanted) || p.Reason != test.reason || p.Status.DesiredReplicas != test.desired || p.Status.CurrentReplicas != test.seen.Wanted {
				t.Errorf("%d replicas (%v) because %q, status %+v", p.Replicas, p.Scale, p.Reason, p.Status)
			}
			if got := told(p); got != test.told {
				t.Errorf("told:\n%s\nwant:\n%s", got, test.told)
			}
			if got := shown(p.Status.CurrentMetrics); got != test.metrics {
				t.Errorf("metrics %s, want %s", got, test.metrics)
			}
			if strings.HasPrefix(name, "a metric of no kind") != p.Spec {
				t.Errorf("the autoscaler's own fault: %v", p.Spec)
			}
		})
	}
}

// shown is a status' metrics in short.
func shown(all []autoscalingv2.MetricStatus) string {
	value := func(v autoscalingv2.MetricValueStatus) string {
		switch {
		case v.AverageUtilization != nil:
			return fmt.Sprintf("%d%% %s", *v.AverageUtilization, v.AverageValue)
		case v.AverageValue != nil:
			return "avg " + v.AverageValue.String()
		}
		return v.Value.String()
	}
	texts := []string{}
	for _, m := range all {
		switch {
		case m.Resource != nil:
			texts = append(texts, string(m.Resource.Name)+" "+value(m.Resource.Current))
		case m.Pods != nil:
			texts = append(texts, m.Pods.Metric.Name+" "+m.Pods.Current.AverageValue.String())
		case m.Object != nil:
			texts = append(texts, m.Object.DescribedObject.Kind+"/"+m.Object.DescribedObject.Name+" "+m.Object.Metric.Name+" "+value(m.Object.Current))
		case m.External != nil:
			texts = append(texts, m.External.Metric.Name+" "+value(m.External.Current))
		default:
			texts = append(texts, "-")
		}
	}
	return fmt.Sprint(texts)
}

func TestScaled(t *testing.T) {
	t.Parallel()
	h := scaler()
	h.Status.DesiredReplicas = 3
	p := Decide(h, Observed{Wanted: 12}, Memory{}, usual, now)
	done := p.scaled(h, usual, nil, now)
	if want := "AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 10\nNormal SuccessfulRescale: New size: 10; reason: Current number of replicas above Spec.MaxReplicas\n"; told(done) != want {
		t.Errorf("told:\n%s", told(done))
	}
	if !done.Status.LastScaleTime.Time.Equal(now) || done.Status.DesiredReplicas != 10 || len(done.Memory.Removed) != 0 {
		t.Errorf("plan %+v", done)
	}
	h.Spec.Behavior = behaves(nil, nil)
	if m := p.scaled(h, usual, nil, now).Memory; len(m.Removed) != 1 || m.Removed[0] != (Entry{2, now}) {
		t.Errorf("with a behavior it remembers %+v", m)
	}
	not := p.scaled(h, usual, errors.New("why"), now)
	if want := "AbleToScale=False FailedUpdateScale: the HPA controller was unable to update the target scale: why\nWarning FailedRescale: New size: 10; reason: Current number of replicas above Spec.MaxReplicas; error: why\n"; told(not) != want {
		t.Errorf("told:\n%s", told(not))
	}
	if not.Status.LastScaleTime != nil || not.Status.DesiredReplicas != 3 || len(not.Memory.Removed) != 0 {
		t.Errorf("plan %+v", not)
	}
}

// TestToZero: only what this controller has emptied comes back, by a metric from outside, and only where that is switched on.
func TestToZero(t *testing.T) {
	t.Parallel()
	h := scaler(metrics(external("10", false)), func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MinReplicas = ptr.To[int32](0) })
	cfg := usual
	cfg.ToZero = true
	idle := []Reading{{Value: 0}}
	late := now.Add(10 * time.Minute)
	p := Decide(h, Observed{Wanted: 2, Replicas: 2, Pods: workers(0, 0), Readings: idle}, Memory{Recommended: []Entry{{2, now}}}, cfg, late)
	if !p.Scale || p.Replicas != 0 || p.Reason != "All metrics below target" {
		t.Fatalf("plan %+v", p)
	}
	h.Status = p.scaled(h, cfg, nil, late).Status
	if !emptied(&h.Status) {
		t.Fatalf("status %+v", h.Status)
	}
	if p := Decide(h, Observed{Readings: idle}, Memory{}, cfg, late); p.Scale || p.Failure != nil {
		t.Errorf("plan %+v", p)
	}
	p = Decide(h, Observed{Readings: []Reading{{Value: 25000}}}, Memory{}, cfg, late)
	if !p.Scale || p.Replicas != 3 {
		t.Errorf("plan %+v", p)
	}
	h.Spec.MinReplicas = ptr.To[int32](1)
	p = Decide(h, Observed{Readings: idle}, Memory{}, cfg, late)
	if !p.Scale || p.Replicas != 1 {
		t.Errorf("with a new least number: %+v", p)
	}
	if back := p.scaled(h, cfg, nil, late).Status; emptied(&back) || !slices.ContainsFunc(back.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Reason == "NotScaledToZero" }) {
		t.Errorf("status %+v", back)
	}
	p = Decide(h, Observed{}, Memory{}, usual, late)
	if p.Scale || emptied(&p.Status) || !strings.Contains(told(p), "ScalingDisabled") {
		t.Errorf("switched off: %+v", p)
	}
}

func TestSteadyStatusIsNotWritten(t *testing.T) {
	t.Parallel()
	h := scaler()
	seen := Observed{Wanted: 2, Replicas: 2, Pods: workers(200, 200), Readings: []Reading{{Samples: samplesOf(100, 100)}}}
	first := Decide(h, seen, Memory{}, usual, now)
	h.Status = first.Status
	if again := Decide(h, seen, first.Memory, usual, now.Add(time.Minute)); !same(&h.Status, &again.Status) {
		t.Errorf("%+v became %+v", h.Status, again.Status)
	}
	status := unable(h.Status, errors.New("why"), now.Add(time.Minute))
	if c := status.Conditions[0]; c.Status != corev1.ConditionFalse || !c.LastTransitionTime.Time.Equal(now.Add(time.Minute)) || h.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
}

func TestRivals(t *testing.T) {
	t.Parallel()
	r := newRivals()
	pods := []*corev1.Pod{worker("a", 1), worker("b", 1)}
	pods[1].Labels = map[string]string{"app": "db", "tier": "back"}
	ask := func(key, selector string) ([]*corev1.Pod, *Problem) {
		_, own, problem := r.selected("ns", key, selector, pods)
		return own, problem
	}
	if own, p := ask("ns/web", "app=web"); p != nil || len(own) != 1 || own[0].Name != "a" {
		t.Errorf("%v, %+v", own, p)
	}
	if _, p := ask("ns/db", "tier in (back)"); p != nil {
		t.Errorf("%+v", p)
	}
	r.claim("other", "other/all", labels.Everything())
	_, p := ask("ns/all", "app")
	if want := "pods by selector app are controlled by multiple HPAs: [ns/all ns/db ns/web]"; p == nil || p.text != want || p.reason != "AmbiguousSelector" {
		t.Errorf("%+v", p)
	}
	if _, p := ask("ns/web", "app=web"); p == nil {
		t.Error("the other one sees nothing of it")
	}
	r.forget("ns", "ns/all")
	if _, p := ask("ns/web", "app=web"); p != nil {
		t.Errorf("%+v", p)
	}
	if _, p := ask("ns/db", "app=web"); p == nil {
		t.Error("a new selector is not noted")
	}
	for selector, text := range map[string]string{
		"":    "selector is required",
		"a b": "couldn't convert selector into a corresponding internal selector object: unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
	} {
		if _, p := ask("ns/x", selector); p == nil || p.text != text || p.reason != "InvalidSelector" {
			t.Errorf("%q: %+v", selector, p)
		}
	}
	r.forget("ns", "ns/web")
	r.forget("ns", "ns/db")
	r.forget("other", "other/all")
	if len(r.of)+len(r.index) > 0 {
		t.Errorf("%+v is left", r)
	}
}
