package pod

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/randfill"

	"howdah.dev/kit/podspec"
)

// Whatever a client sends, nothing panics, defaults are a fixed point, and an
// update that changes nothing is allowed.
func TestAnyPod(t *testing.T) {
	t.Parallel()
	for range 300 {
		seed := rand.Int64()
		var p corev1.Pod
		randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 2).MaxDepth(14).Funcs(
			func(q *resource.Quantity, c randfill.Continue) {
				*q = *resource.NewMilliQuantity(c.Int63n(1e9)-1e6, resource.DecimalSI)
			},
			func(f *metav1.FieldsV1, _ randfill.Continue) {},
			func(m *metav1.Time, c randfill.Continue) { *m = metav1.Unix(int64(c.Int31()), 0) },
		).Fill(&p)
		podspec.DefaultPod(&p.Spec)
		once := p.DeepCopy()
		podspec.DefaultPod(&p.Spec)
		if !equality.Semantic.DeepEqual(once, &p) {
			t.Fatalf("seed %d: defaulted again: %s", seed, diff.Diff(once, &p))
		}
		wrong := map[string]bool{}
		for _, err := range validate(&p) {
			wrong[err.Error()] = true
		}
		podspec.Warnings(&p.Spec, &p.ObjectMeta, field.NewPath("spec"), field.NewPath("metadata", "annotations"))
		cells(&p, clock)
		gracePeriod(&p, nil)
		selectable(&p)
		q := p.DeepCopy()
		prepareUpdate(q, &p)
		for _, err := range validateUpdate(q, &p) {
			deadline := err.Field == "spec.activeDeadlineSeconds" // whose range differs
			if !wrong[err.Error()] && !deadline {                 // what is wrong anyway is repeated
				t.Fatalf("seed %d: an update that changes nothing: %v", seed, err)
			}
		}
		prepareStatus(q, &p)
		prepareResize(q, &p)
		validateResize(q, &p)
		prepareEphemeral(q, &p)
		validateEphemeralUpdate(q, &p)
		prepareCreate(q, time.Time{})
	}
}

func BenchmarkCreate(b *testing.B) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}
	p.Spec.Containers = []corev1.Container{{Name: "a", Image: "nginx:1", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}
	b.ReportAllocs()
	for b.Loop() {
		q := p.DeepCopy()
		podspec.DefaultPod(&q.Spec)
		prepareCreate(q, time.Time{})
		if errs := validate(q); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
