package pod

import (
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// copyOf is the n-th pod of a template.
func copyOf(n int, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("p-%d", n), GenerateName: "p-", Namespace: "default", Labels: map[string]string{"app": "a"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "p", UID: "1", Controller: new(true)}},
	}}
	p.Spec.Containers = []corev1.Container{{
		Name: "c", Image: "registry.example.com/application:1",
		Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
		VolumeMounts: []corev1.VolumeMount{{Name: fmt.Sprintf("token-%d", n), MountPath: "/token"}},
	}}
	for i := range 20 {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: fmt.Sprintf("value %d", i)})
	}
	p.Spec.Volumes = []corev1.Volume{{Name: fmt.Sprintf("token-%d", n), VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(420)),
		Sources:     []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3607))}}},
	}}}}
	p.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "linux"}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}}
	if change != nil {
		change(p)
	}
	return p
}

func encoded(p *corev1.Pod) []byte {
	b, err := p.Marshal()
	if err != nil {
		panic(err) // never fails
	}
	return b
}

func TestSharing(t *testing.T) {
	t.Parallel()
	env := func(p *corev1.Pod) any { return unsafe.SliceData(p.Spec.Containers[0].Env) }
	volume := func(p *corev1.Pod) any { return p.Spec.Volumes[0].Projected }
	tolerations := func(p *corev1.Pod) any { return unsafe.SliceData(p.Spec.Tolerations) }
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		part   func(*corev1.Pod) any
		shared bool
	}{
		{"environment", nil, env, true},
		{"volume of another name", nil, volume, true},
		{"tolerations", nil, tolerations, true},
		{"another value", func(p *corev1.Pod) { p.Spec.Containers[0].Env[7].Value = "other" }, env, false},
		{"a value from elsewhere", func(p *corev1.Pod) { p.Spec.Containers[0].Env[7].ValueFrom = &corev1.EnvVarSource{} }, env, false},
		{"tolerations beside another environment", func(p *corev1.Pod) { p.Spec.Containers[0].Env[7].Value = "other" }, tolerations, true},
		{"another image", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }, env, false},
		{"another lifetime of the token", func(p *corev1.Pod) {
			*p.Spec.Volumes[0].Projected.Sources[0].ServiceAccountToken.ExpirationSeconds = 600
		}, volume, false},
		{"no volumes", func(p *corev1.Pod) { p.Spec.Volumes = nil }, env, true},
		{"no containers", func(p *corev1.Pod) { p.Spec.Containers = nil }, tolerations, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSharer()
			first, second, third := copyOf(1, nil), copyOf(2, c.change), copyOf(3, c.change)
			for _, p := range []*corev1.Pod{first, second, third} {
				want := p.DeepCopy()
				if s.share(p, encoded(p)); !reflect.DeepEqual(p, want) {
					t.Fatalf("sharing made %v of %v", p, want)
				}
			}
			if got := c.part(first) == c.part(second); got != c.shared {
				t.Errorf("shared with a pod made before: %t, want %t", got, c.shared)
			}
			if len(third.Spec.Containers) > 0 && env(second) != env(third) {
				t.Error("two pods that were made alike one after the other do not share their environment")
			}
		})
	}
}

// A patch of the metadata leaves the spec's slices those of the object before, which others read: sharing writes to none of them.
func TestSharingLeavesWhatOthersRead(t *testing.T) {
	t.Parallel()
	large := func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{string(make([]byte, largestTemplate))} }
	for name, change := range map[string]func(*corev1.Pod){"of a template": nil, "too large for a template": large} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSharer()
			held := copyOf(1, change)
			same := copyOf(1, change)
			s.share(same, encoded(same)) // is what parts are shared with
			patched := &corev1.Pod{ObjectMeta: *held.ObjectMeta.DeepCopy(), Spec: held.Spec}
			patched.Spec.HostNetwork = true // no pod of the template before
			container, volume := held.Spec.Containers[0], held.Spec.Volumes[0]
			s.share(patched, encoded(patched))
			if unsafe.SliceData(patched.Spec.Containers[0].Env) != unsafe.SliceData(same.Spec.Containers[0].Env) || patched.Spec.Volumes[0].Projected != same.Spec.Volumes[0].Projected {
				t.Error("what is equal is not shared")
			}
			if now := held.Spec.Containers[0]; unsafe.SliceData(now.Env) != unsafe.SliceData(container.Env) || unsafe.SliceData(now.Args) != unsafe.SliceData(container.Args) {
				t.Error("sharing has written to the containers of the object before")
			}
			if held.Spec.Volumes[0].Projected != volume.Projected {
				t.Error("sharing has written to the volumes of the object before")
			}
		})
	}
}

func TestSharingIsBounded(t *testing.T) {
	t.Parallel()
	s := newSharer()
	for n := range 5 * maxTemplates {
		p := copyOf(n, func(p *corev1.Pod) { p.Spec.Containers[0].Image = fmt.Sprint(n) })
		s.share(p, encoded(p))
	}
	if got := s.near.Len(); got > 2*maxTemplates {
		t.Errorf("%d templates are remembered", got)
	}
	if got := s.exact.Len(); got > 2*maxTemplates {
		t.Errorf("%d exact templates are remembered", got)
	}
}

func TestSharingAtOnce(t *testing.T) {
	t.Parallel()
	s := newSharer()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for n := range 100 {
				p := copyOf(n, func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].Value = fmt.Sprint(worker % 2) })
				want := p.DeepCopy()
				if s.share(p, encoded(p)); !reflect.DeepEqual(p, want) {
					t.Errorf("sharing made %v of %v", p, want)
				}
			}
		})
	}
	wg.Wait()
}

// Pods of one template have a spec of one text; comparing it, against comparing the parts of those that differ in one.
func BenchmarkShare(b *testing.B) {
	for _, c := range []struct {
		name   string
		number func(n int) int
	}{
		{"exact", func(int) int { return 0 }},
		{"parts", func(n int) int { return n }},
	} {
		b.Run(c.name, func(b *testing.B) {
			kind := Kind(time.Now)
			pods, texts := make([]*corev1.Pod, b.N), make([][]byte, b.N)
			for n := range pods {
				pods[n] = copyOf(c.number(n), nil)
				texts[n] = encoded(pods[n])
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n, p := range pods {
				kind.Share(p, texts[n])
			}
		})
	}
}
