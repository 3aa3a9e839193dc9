package pod

import (
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/recent"
)

// maxTemplates is how many templates a sharer remembers at least, exact ones and others.
const maxTemplates = 256

// sharer lets pods that are made alike have in common what is equal in them. Most pods of a cluster are copies of a few templates; what
// keeps thousands of them in memory then holds the parts once, and the garbage collector has half as much to go over.
type sharer struct {
	seed  maphash.Seed
	exact recent.Map[uint64, *template]
	near  recent.Map[uint64, *corev1.PodSpec]
}

func newSharer() *sharer {
	return &sharer{
		seed:  maphash.MakeSeed(),
		exact: recent.Map[uint64, *template]{Max: maxTemplates}, near: recent.Map[uint64, *corev1.PodSpec]{Max: maxTemplates},
	}
}

// share makes equal parts of p, which encoded decodes to, those of a pod that was made alike before. Nobody may change them from here on.
func (s *sharer) share(p *corev1.Pod, encoded []byte) {
	t, ok := templateOf(encoded)
	if !ok {
		s.shareParts(&p.Spec)
		return
	}
	key := t.key(s.seed)
	if known, ok := s.exact.Get(key); ok && known.same(&t) {
		node := p.Spec.NodeName
		p.Spec = known.pod.Spec
		p.Spec.NodeName = node
		shareMeta(&p.ObjectMeta, &known.pod.ObjectMeta)
		return
	}
	s.shareParts(&p.Spec)
	t = t.alone()
	t.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, GenerateName: p.GenerateName, Labels: p.Labels, OwnerReferences: p.OwnerReferences,
	}, Spec: p.Spec}
	s.exact.Put(key, &t)
}

// recall decodes an encoded pod but for its spec, which is that of a pod made alike before; ok is false where there was none.
// Decoding the spec is four fifths of decoding a pod.
func (s *sharer) recall(encoded []byte) (p *corev1.Pod, ok bool) {
	start, end, spec := specOf(encoded)
	if start == end || len(spec) > largestTemplate {
		return nil, false
	}
	t := cut(spec)
	known, ok := s.exact.Get(t.key(s.seed))
	if !ok || !known.same(&t) {
		return nil, false
	}
	p = &corev1.Pod{}
	if p.Unmarshal(encoded[:start]) != nil || p.Unmarshal(encoded[end:]) != nil {
		return nil, false // what is wrong is told by who decodes all of it
	}
	p.Spec = known.pod.Spec
	p.Spec.NodeName = string(t.node)
	return p, true
}

// shareMeta makes equal parts of the metadata, which pods of one owner have alike, those of the other.
func shareMeta(own, other *metav1.ObjectMeta) {
	// Equal strings are two copies of their bytes, too: the assignment lets go of one.
	if own.Namespace == other.Namespace {
		own.Namespace = other.Namespace
	}
	if own.GenerateName == other.GenerateName {
		own.GenerateName = other.GenerateName
	}
	if (own.Labels == nil) == (other.Labels == nil) && maps.Equal(own.Labels, other.Labels) {
		own.Labels = other.Labels
	}
	if slices.EqualFunc(own.OwnerReferences, other.OwnerReferences, equalOwner) && len(own.OwnerReferences) > 0 {
		own.OwnerReferences = other.OwnerReferences
	}
}

func equalOwner(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion &&
		ptr.Equal(a.Controller, b.Controller) && ptr.Equal(a.BlockOwnerDeletion, b.BlockOwnerDeletion)
}

// shareParts makes equal parts of a spec those of one that is like it.
func (s *sharer) shareParts(spec *corev1.PodSpec) {
	key := s.key(spec)
	like, ok := s.near.Get(key)
	if !ok {
		s.near.Put(key, copyOfSpec(spec))
		return
	}
	sameInit := shareEach(&spec.InitContainers, like.InitContainers, shareContainer)
	same := shareEach(&spec.Containers, like.Containers, shareContainer) && sameInit
	shareEach(&spec.Volumes, like.Volumes, shareVolume)
	if maps.Equal(spec.NodeSelector, like.NodeSelector) {
		spec.NodeSelector = like.NodeSelector
	}
	adopt(&spec.Tolerations, &like.Tolerations)
	adopt(&spec.Affinity, &like.Affinity)
	adopt(&spec.SecurityContext, &like.SecurityContext)
	adopt(&spec.TopologySpreadConstraints, &like.TopologySpreadConstraints)
	if !same { // what is made from now on is more like this one
		s.near.Put(key, copyOfSpec(spec))
	}
}

func copyOfSpec(spec *corev1.PodSpec) *corev1.PodSpec {
	kept := *spec
	return &kept
}

// shareEach shares what is in each element of own with that of other, and reports whether share did so of all. The elements get a
// place of their own for it: where they are may be read already, as by who has the object that a patch has left these parts of.
func shareEach[T any](own *[]T, other []T, share func(own, other *T) bool) bool {
	if len(*own) != len(other) {
		return false
	}
	if unsafe.SliceData(*own) == unsafe.SliceData(other) {
		return true
	}
	same := true
	*own = slices.Clone(*own)
	for i := range other {
		same = share(&(*own)[i], &other[i]) && same
	}
	return same
}

// shareContainer reports whether the environments, which are the most of a container, are now the same.
func shareContainer(own, other *corev1.Container) bool {
	same := slices.EqualFunc(own.Env, other.Env, equalEnv)
	if same {
		own.Env = other.Env
	}
	adopt(&own.Resources, &other.Resources)
	adopt(&own.EnvFrom, &other.EnvFrom)
	adopt(&own.Ports, &other.Ports)
	adopt(&own.Command, &other.Command)
	adopt(&own.Args, &other.Args)
	adopt(&own.LivenessProbe, &other.LivenessProbe)
	adopt(&own.ReadinessProbe, &other.ReadinessProbe)
	adopt(&own.StartupProbe, &other.StartupProbe)
	adopt(&own.SecurityContext, &other.SecurityContext)
	return same
}

func shareVolume(own, other *corev1.Volume) bool {
	adopt(&own.VolumeSource, &other.VolumeSource)
	return true
}

func equalEnv(a, b corev1.EnvVar) bool {
	return a.Name == b.Name && a.Value == b.Value &&
		(a.ValueFrom == b.ValueFrom || a.ValueFrom != nil && b.ValueFrom != nil && reflect.DeepEqual(a.ValueFrom, b.ValueFrom))
}

// adopt makes own what it equals.
func adopt[T any](own, other *T) {
	if reflect.DeepEqual(own, other) {
		*own = *other
	}
}

// key is the same for pods that are probably made alike.
func (s *sharer) key(spec *corev1.PodSpec) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			_, _ = h.WriteString(containers[i].Name) // never fails
			_, _ = h.WriteString(containers[i].Image)
			_ = h.WriteByte(byte(len(containers[i].Env)))
		}
	}
	return h.Sum64()
}
