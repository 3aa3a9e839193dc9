package autoscaler

import (
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

const full = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: a, annotations: {x: z}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 9
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
  - {type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1Gi}}}
  - {type: ContainerResource, containerResource: {name: cpu, container: c, target: {type: Utilization, averageUtilization: 70}}}
  - {type: Pods, pods: {metric: {name: rps, selector: {matchLabels: {a: b}}}, target: {type: AverageValue, averageValue: 1k}}}
  - {type: Object, object: {describedObject: {kind: Service, name: s}, metric: {name: hits}, target: {type: Value, value: 10k}}}
  - {type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: "30"}}}
  behavior: {scaleDown: {stabilizationWindowSeconds: 60}}
status:
  currentReplicas: 3
  desiredReplicas: 4
  currentMetrics:
  - {type: Resource, resource: {name: cpu, current: {averageUtilization: 55, averageValue: 100m}}}
  - {type: External, external: {metric: {name: queue}, current: {averageValue: "12", value: "5"}}}
  conditions: [{type: AbleToScale, status: "True", reason: R, message: M}]
`

func parsed(t *testing.T, text string) *scaler {
	t.Helper()
	h := &scaler{}
	if err := yaml.UnmarshalStrict([]byte(text), h); err != nil {
		t.Fatal(err)
	}
	fill(h)
	return h
}

func TestThroughV1(t *testing.T) {
	t.Parallel()
	h := parsed(t, full)
	if errs := validate(h, false); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	v1 := toV1(h)
	if got := v1.Spec.TargetCPUUtilizationPercentage; got == nil || *got != 60 {
		t.Errorf("target %v", got)
	}
	if got := v1.Status.CurrentCPUUtilizationPercentage; got == nil || *got != 55 {
		t.Errorf("current %v", got)
	}
	if got := v1.Annotations[metricsAnnotation]; !strings.Contains(got, `{"type":"Pods","pods":{"metricName":"rps","targetAverageValue":"1k","selector":{"matchLabels":{"a":"b"}}}}`) {
		t.Errorf("metrics %s", got)
	}
	for _, key := range []string{currentAnnotation, conditionsAnnotation, behaviorAnnotation} {
		if v1.Annotations[key] == "" {
			t.Errorf("no %s", key)
		}
	}
	if len(h.Annotations) != 1 {
		t.Errorf("the stored object was changed: %v", h.Annotations)
	}
	back := fromV1(v1)
	// What the field says comes behind what the annotation says.
	h.Spec.Metrics = append(h.Spec.Metrics[1:], h.Spec.Metrics[0])
	if !equality.Semantic.DeepEqual(back, h) {
		got, _ := yaml.Marshal(back)
		t.Errorf("came back as\n%s", got)
	}
}

func TestFromV1(t *testing.T) {
	t.Parallel()
	percent, current := int32(50), int32(20)
	in := &autoscalingv1.HorizontalPodAutoscaler{}
	in.Annotations = map[string]string{metricsAnnotation: "nonsense"}
	in.Spec.TargetCPUUtilizationPercentage, in.Status.CurrentCPUUtilizationPercentage = &percent, &current
	h := fromV1(in)
	if len(h.Spec.Metrics) != 1 || *h.Spec.Metrics[0].Resource.Target.AverageUtilization != 50 || len(h.Annotations) != 0 {
		t.Errorf("%+v", h)
	}
	if back := toV1(h); *back.Spec.TargetCPUUtilizationPercentage != 50 || *back.Status.CurrentCPUUtilizationPercentage != 20 || len(back.Annotations) != 1 {
		t.Errorf("%+v", back)
	}
}

func TestBehaviorOfAnnotations(t *testing.T) {
	t.Parallel()
	for text, refused := range map[string]string{
		`{}`:   "",
		`null`: "",
		`[]`:   "",
		`{"ScaleUp":{"StabilizationWindowSeconds":5}}`: "spec.behavior.scaleUp.policies",
		`{"ScaleDown":{}}`: "spec.behavior.scaleDown.policies",
		`{"ScaleUp":{"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":5}]}}`: "",
	} {
		in := &autoscalingv1.HorizontalPodAutoscaler{}
		in.Annotations = map[string]string{behaviorAnnotation: text}
		in.Spec.MaxReplicas, in.Spec.ScaleTargetRef = 2, autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"}
		h := fromV1(in)
		if none := !strings.Contains(text, ":"); none != (h.Spec.Behavior == nil) {
			t.Errorf("%s: behavior %+v", text, h.Spec.Behavior)
		}
		fill(h)
		var got string
		if errs := validate(h, false); len(errs) > 0 {
			got = errs[0].Field
		}
		if got != refused {
			t.Errorf("%s: %q is refused, not %q", text, got, refused)
		}
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	h := parsed(t, full)
	if got, want := targets(h.Spec.Metrics, h.Status.CurrentMetrics), "cpu: 55%/60%, memory: <unknown>/1Gi + 4 more..."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := targets(h.Spec.Metrics[5:], h.Status.CurrentMetrics[1:]), "12/30 (avg)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What annotations of autoscaling/v1 stand for is not taken from a newer version, which has fields for it.
func TestNewerVersionsHaveNoAnnotationsForFields(t *testing.T) {
	t.Parallel()
	k := Kind(time.Now, false)
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	h.Annotations = map[string]string{metricsAnnotation: "x", behaviorAnnotation: "{}", "a": "b"}
	k.Default(h)
	if len(h.Annotations) != 1 || h.Annotations["a"] != "b" {
		t.Errorf("%v", h.Annotations)
	}
	h.Annotations = map[string]string{conditionsAnnotation: "[]"}
	if k.Default(h); h.Annotations != nil {
		t.Errorf("%v", h.Annotations)
	}
}

// TestToZero: targets may have no replicas with the gate, or where they might before.
func TestToZero(t *testing.T) {
	t.Parallel()
	of := func(least int32) *scaler {
		h := parsed(t, full)
		h.Spec.MinReplicas = &least
		return h
	}
	const low = `spec.minReplicas: Invalid value: 0: must be greater than or equal to 1`
	for _, test := range []struct {
		gate     bool
		new, old int32
		made     string
		kept     string
	}{
		{false, 0, 1, low, low}, {false, 0, 0, low, ""}, {true, 0, 1, "", ""},
		{true, -1, 1, "spec.minReplicas: Invalid value: -1: must be greater than or equal to 0", "spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"},
	} {
		k := Kind(time.Now, test.gate)
		text := func(errs field.ErrorList) string {
			if err := errs.ToAggregate(); err != nil {
				return err.Error()
			}
			return ""
		}
		if got := text(k.Validate(of(test.new))); got != test.made {
			t.Errorf("%+v: made, %q", test, got)
		}
		if got := text(k.Ratchet(of(test.new), of(test.old))); got != test.kept {
			t.Errorf("%+v: changed, %q", test, got)
		}
	}
}
