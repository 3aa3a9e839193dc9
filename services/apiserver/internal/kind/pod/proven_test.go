package pod

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/podspec"
)

// right is a pod that passes every check.
func right(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"a": "1"}}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "image"}}
	podspec.DefaultPod(&p.Spec)
	if change != nil {
		change(p)
	}
	return p
}

// What was found right is not checked again; what differs from it in anything that is checked is.
func TestProven(t *testing.T) {
	t.Parallel()
	claim := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Name = name
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				}},
			}}}}
		}
	}
	for _, c := range []struct {
		name          string
		before, after func(*corev1.Pod)
		wrong         bool
	}{
		{"the same", nil, nil, false},
		{"another name", nil, func(p *corev1.Pod) { p.Name = "q" }, false},
		{"an image that is missing", nil, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "" }, true},
		{"an annotation that is wrong", nil, func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "x"} }, true},
		{"wrong twice", func(p *corev1.Pod) { p.Spec.RestartPolicy = "x" }, func(p *corev1.Pod) { p.Spec.RestartPolicy = "x" }, true},
		{"a name that is too long for a claim", nil, func(p *corev1.Pod) { claim(fmt.Sprintf("%0253d", 0))(p) }, true},
		{"larger than is remembered", nil, func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{string(make([]byte, largestTemplate))} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := newProven()
			v.validate(right(c.before))
			p := right(c.after)
			errs := v.validate(p)
			if (len(errs) > 0) != c.wrong {
				t.Errorf("wrong: %v, want %t", errs, c.wrong)
			}
			if fmt.Sprint(errs) != fmt.Sprint(validate(p)) {
				t.Errorf("%v, but a full check finds %v", errs, validate(p))
			}
		})
	}
}

func TestProvenIsBounded(t *testing.T) {
	t.Parallel()
	v := newProven()
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := range 2 * maxProven {
				if errs := v.validate(right(func(p *corev1.Pod) { p.Spec.Containers[0].Image = fmt.Sprint(worker, n) })); len(errs) > 0 {
					t.Error(errs)
				}
			}
		})
	}
	wg.Wait()
	if got := v.right.Len(); got > 2*maxProven {
		t.Errorf("%d specs are remembered", got)
	}
}

// A spec that was found right, against checking it.
func BenchmarkProven(b *testing.B) {
	p := copyOf(0, nil)
	podspec.DefaultPod(&p.Spec)
	for name, check := range map[string]func(*corev1.Pod){
		"remembered": func() func(*corev1.Pod) { v := newProven(); return func(p *corev1.Pod) { v.validate(p) } }(),
		"checked":    func(p *corev1.Pod) { validate(p) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				check(p)
			}
		})
	}
}
