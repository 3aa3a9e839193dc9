package pod

import (
	"hash/maphash"
	"reflect"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
)

// Pods of one template share their whole spec wherever they run; nothing else of them, and nobody else shares it.
func TestSharingOfTheWholeSpec(t *testing.T) {
	t.Parallel()
	on := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	for _, c := range []struct {
		name          string
		first, second func(*corev1.Pod)
		shared        bool
	}{
		{"neither has a node", nil, nil, true},
		{"the second has one", nil, on("b"), true},
		{"the first has one", on("a"), nil, true},
		{"each has its own", on("a"), on("another"), true},
		{"another owner", nil, func(p *corev1.Pod) { p.OwnerReferences[0].UID = "2" }, true},
		{"another mount", nil, func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].Name = "token-8" }, false},
		{"another account", on("a"), func(p *corev1.Pod) { p.Spec.ServiceAccountName = "a" }, false},
		{"another host name", on("a"), func(p *corev1.Pod) { p.Spec.Hostname = "a" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSharer()
			first, second := copyOf(0, c.first), copyOf(0, c.second)
			for _, p := range []*corev1.Pod{first, second} {
				want := p.DeepCopy()
				if s.share(p, encoded(p)); !reflect.DeepEqual(p, want) {
					t.Fatalf("sharing made %v of %v", p, want)
				}
			}
			if owners := unsafe.SliceData(first.OwnerReferences) == unsafe.SliceData(second.OwnerReferences); owners != (c.shared && c.name != "another owner") {
				t.Errorf("the owners are shared: %t", owners)
			}
			if got := unsafe.SliceData(first.Spec.Containers) == unsafe.SliceData(second.Spec.Containers); got != c.shared {
				t.Errorf("the containers are shared: %t, want %t", got, c.shared)
			}
		})
	}
}

// What is decoded with a spec that is known is what was encoded, to the last field; what is known of nobody, is decoded by others.
func TestRecall(t *testing.T) {
	t.Parallel()
	on := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	for _, c := range []struct {
		name          string
		first, second func(*corev1.Pod)
		known         bool
	}{
		{"the same", nil, nil, true},
		{"gets a node", nil, on("b"), true},
		{"another node", on("a"), on("another"), true},
		{"has none any more", on("a"), nil, true},
		{"its status", nil, func(p *corev1.Pod) { p.Status.Phase, p.Status.PodIP = corev1.PodRunning, "10.0.0.1" }, true},
		{"no status, no labels", nil, func(p *corev1.Pod) { p.Status, p.Labels = corev1.PodStatus{}, nil }, true},
		{"another image", nil, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSharer()
			first, second := copyOf(0, c.first), copyOf(0, c.second)
			second.Name, second.UID = "another", "2"
			if _, ok := s.recall(encoded(first)); ok {
				t.Fatal("a pod is recalled that was never seen")
			}
			s.share(first, encoded(first))
			got, ok := s.recall(encoded(second))
			if ok != c.known {
				t.Fatalf("recalled: %t, want %t", ok, c.known)
			}
			want := &corev1.Pod{}
			if err := want.Unmarshal(encoded(second)); err != nil {
				t.Fatal(err)
			}
			if ok && !reflect.DeepEqual(got, want) {
				t.Errorf("recalled %v, want %v", got, want)
			}
			if ok && first.Spec.NodeName != copyOf(0, c.first).Spec.NodeName {
				t.Error("what was known has changed")
			}
		})
	}
}

func TestTemplatesAreHeldOnToWhileSmall(t *testing.T) {
	t.Parallel()
	large := copyOf(0, func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{string(make([]byte, largestTemplate))} })
	s := newSharer()
	s.share(large, encoded(large))
	if s.exact.Len() != 0 {
		t.Error("a template that is too large is held on to")
	}
}

// Whatever bytes come, a template is what there is but for the node, or there is none.
func FuzzTemplate(f *testing.F) {
	f.Add(encoded(copyOf(0, nil)))
	f.Add(encoded(copyOf(0, func(p *corev1.Pod) { p.Spec.NodeName = "a" })))
	f.Add([]byte{0x12, 2, 0x52, 0})
	f.Add([]byte{0x12, 0xff})
	seed := maphash.MakeSeed()
	f.Fuzz(func(t *testing.T, text []byte) {
		found, ok := templateOf(text)
		if !ok {
			return
		}
		again, _ := templateOf(text)
		if !found.same(&again) || found.key(seed) != again.key(seed) {
			t.Error("a template is not the same as itself")
		}
		s := newSharer()
		whole := &corev1.Pod{}
		if err := whole.Unmarshal(text); err == nil {
			s.share(whole.DeepCopy(), text)
			if got, ok := s.recall(text); ok && !reflect.DeepEqual(got, whole) {
				t.Errorf("recalled %v, want %v", got, whole)
			}
		}
		if size := len(found.before) + len(found.after); size > len(text) || size > largestTemplate {
			t.Errorf("a template of %d bytes in a pod of %d", size, len(text))
		}
	})
}
