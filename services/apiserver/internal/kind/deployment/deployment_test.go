package deployment

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func good() *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}
	labels := map[string]string{"app": "web"}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = maps.Clone(labels)
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
	appsV1.fill(d)
	return d
}

func texts(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}

func expect(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	if got := texts(errs); !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	number := func(n int32) *int32 { return &n }
	portion := func(s string) *intstr.IntOrString { v := intstr.Parse(s); return &v }
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		want   []string
	}{
		"good":        {func(*appsv1.Deployment) {}, nil},
		"replicas":    {func(d *appsv1.Deployment) { d.Spec.Replicas = number(-1) }, []string{"spec.replicas: Invalid value: -1: must be greater than or equal to 0"}},
		"no selector": {func(d *appsv1.Deployment) { d.Spec.Selector = nil }, []string{`spec.selector: Required value`, "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`"}},
		"empty selector": {func(d *appsv1.Deployment) { d.Spec.Selector = &metav1.LabelSelector{} }, []string{
			"spec.selector: Invalid value: {}: empty selector is invalid for deployment",
		}},
		"other labels": {func(d *appsv1.Deployment) { d.Spec.Template.Labels = map[string]string{"app": "other"} }, []string{
			"spec.template.metadata.labels: Invalid value: {\"app\":\"other\"}: `selector` does not match template `labels`",
		}},
		"no image": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "" }, []string{"spec.template.spec.containers[0].image: Required value"}},
		"restart policy": {func(d *appsv1.Deployment) { d.Spec.Template.Spec.RestartPolicy = "Never" }, []string{
			`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`,
		}},
		"deadline of pods": {func(d *appsv1.Deployment) { n := int64(5); d.Spec.Template.Spec.ActiveDeadlineSeconds = &n }, []string{
			"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
		}},
		"strategy": {func(d *appsv1.Deployment) { d.Spec.Strategy.Type = "Magic" }, []string{
			`spec.strategy: Unsupported value: {"type":"Magic","rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"}}: supported values: "Recreate", "RollingUpdate"`,
		}},
		"recreate rolling": {func(d *appsv1.Deployment) { d.Spec.Strategy.Type = "Recreate" }, []string{
			"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
		}},
		"no way on": {func(d *appsv1.Deployment) {
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: portion("0"), MaxUnavailable: portion("0%")}
		}, []string{"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0"}},
		"more than all": {func(d *appsv1.Deployment) { d.Spec.Strategy.RollingUpdate.MaxUnavailable = portion("110%") }, []string{
			`spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "110%": must not be greater than 100%`,
		}},
		"no portion": {func(d *appsv1.Deployment) { d.Spec.Strategy.RollingUpdate.MaxSurge = portion("many") }, []string{
			`spec.strategy.rollingUpdate.maxSurge: Invalid value: "many": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`,
		}},
		"deadline": {func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 600 }, []string{
			"spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
		}},
		"history": {func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = number(-1) }, []string{
			"spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := good()
			c.change(d)
			expect(t, validate(d), c.want...)
		})
	}
}

func TestSelectorIsImmutable(t *testing.T) {
	t.Parallel()
	d := good()
	d.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
	expect(t, validateUpdate(d, good()), `spec.selector: Invalid value: {"matchLabels":{"app":"other"}}: field is immutable`)
}

func TestStatusUpdate(t *testing.T) {
	t.Parallel()
	n := int32(2)
	old := good()
	old.Status.CollisionCount = &n
	d := old.DeepCopy()
	d.Status = appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 2, ReadyReplicas: 0, AvailableReplicas: 1, UnavailableReplicas: -1}
	expect(t, validateStatusUpdate(d, old),
		"status.unavailableReplicas: Invalid value: -1: must be greater than or equal to 0",
		"status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas",
		"status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas",
		"status.collisionCount: Invalid value: 0: cannot be decremented")
}

func TestGeneration(t *testing.T) {
	t.Parallel()
	k := Kind(time.Now)
	old := good()
	k.PrepareCreate(old)
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		want   int64
	}{
		"status":      {func(d *appsv1.Deployment) { d.Status.Replicas = 9 }, 1},
		"labels":      {func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} }, 1},
		"replicas":    {func(d *appsv1.Deployment) { k.Scale.Set(d, 5) }, 2},
		"annotations": {func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "b"} }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := old.DeepCopy()
			c.change(d)
			k.PrepareUpdate(d, old)
			if d.Generation != c.want || d.Status.Replicas != 0 {
				t.Errorf("generation %d, want %d; %d replicas", d.Generation, c.want, d.Status.Replicas)
			}
		})
	}
	s := old.DeepCopy()
	k.Scale.Set(s, 7)
	s.Labels, s.Status.Replicas = map[string]string{"a": "b"}, 3
	k.Status.PrepareUpdate(s, old)
	if *s.Spec.Replicas != 1 || s.Labels != nil || s.Status.Replicas != 3 || s.Generation != 1 {
		t.Errorf("%+v", s)
	}
	if spec, status, selector := k.Scale.Get(s); spec != 1 || status != 3 || selector != "app=web" {
		t.Errorf("scale %d %d %q", spec, status, selector)
	}
}

func TestRollbackIsKept(t *testing.T) {
	t.Parallel()
	v := extensionsVersion()
	in := &extensionsv1beta1.Deployment{Spec: extensionsv1beta1.DeploymentSpec{RollbackTo: &extensionsv1beta1.RollbackConfig{Revision: 3}}}
	out, err := v.ToStored(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.GetAnnotations()["deprecated.deployment.rollback.to"]; got != "3" {
		t.Errorf("annotation %q", got)
	}
	if in.Annotations != nil {
		t.Error("the input got the annotation too")
	}
	back, err := v.FromStored(out)
	if d := back.(*extensionsv1beta1.Deployment); err != nil || d.Spec.RollbackTo.Revision != 3 || len(d.Annotations) != 0 || len(out.GetAnnotations()) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if v.Default(in); in.Spec.RollbackTo.Revision != 3 || in.Spec.Replicas == nil || in.Annotations != nil {
		t.Errorf("with defaults %+v", in)
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := good()
	d.CreationTimestamp = metav1.NewTime(now.Add(-90 * time.Second))
	d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "b", Image: "c:1"})
	d.Status = appsv1.DeploymentStatus{ReadyReplicas: 2, UpdatedReplicas: 1, AvailableReplicas: 2}
	want := []any{"web", "2/1", int64(1), int64(2), "90s", "web,b", "nginx,c:1", "app=web"}
	if got := cells(d, now); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
