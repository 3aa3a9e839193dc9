package replicaset

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func good() *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}
	rs.Spec.Template.Labels = map[string]string{"app": "web"}
	rs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
	fillFromTemplate(rs)
	return rs
}

func expect(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	var got []string
	for _, e := range errs {
		got = append(got, e.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	expect(t, validate(good()))
	bad := good()
	n := int32(-2)
	bad.Spec.Replicas = &n
	bad.Spec.Template.Labels = nil
	expect(t, validate(bad),
		"spec.replicas: Invalid value: -2: must be greater than or equal to 0",
		"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`")
	other := good()
	other.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "b"}}
	expect(t, validateUpdate(other, good()), `spec.selector: Invalid value: {"matchLabels":{"app":"b"}}: field is immutable`)
	status := good()
	status.Status = appsv1.ReplicaSetStatus{Replicas: 1, FullyLabeledReplicas: 2, AvailableReplicas: 1}
	expect(t, validateStatusUpdate(status, good()),
		"status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas",
		"status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas")
}

func TestGenerationAndScale(t *testing.T) {
	t.Parallel()
	k := Kind(time.Now)
	old := good()
	k.PrepareCreate(old)
	rs := old.DeepCopy()
	rs.Annotations = map[string]string{"a": "b"}
	rs.Status.Replicas = 4
	k.PrepareUpdate(rs, old)
	if rs.Generation != 1 || rs.Status.Replicas != 0 {
		t.Errorf("annotations alone: generation %d, %d replicas", rs.Generation, rs.Status.Replicas)
	}
	k.Scale.Set(rs, 5)
	k.PrepareUpdate(rs, old)
	if spec, status, selector := k.Scale.Get(rs); rs.Generation != 2 || spec != 5 || status != 0 || selector != "app=web" {
		t.Errorf("generation %d, scale %d %d %q", rs.Generation, spec, status, selector)
	}
}
