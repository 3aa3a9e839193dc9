package pod

import (
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// maxTemplates is how many pods each of the two generations of a sharer remembers.
const maxTemplates = 256

// sharer lets pods that are made alike have in common what is equal in them. Most pods of a cluster are copies of a few templates; what
// keeps thousands of them in memory then holds the parts once, and the garbage collector has half as much to go over.
type sharer struct {
	seed         maphash.Seed
	mu           sync.Mutex
	young, older map[uint64]*corev1.PodSpec
}

func newSharer() *sharer { return &sharer{seed: maphash.MakeSeed()} }

// share makes equal parts of p those of a pod that was made alike before. Nobody may change them from here on.
func (s *sharer) share(p *corev1.Pod) {
	key := s.key(&p.Spec)
	like := s.like(key, &p.Spec)
	if like == nil {
		return
	}
	same := shareContainers(p.Spec.InitContainers, like.InitContainers)
	same = shareContainers(p.Spec.Containers, like.Containers) && same
	if len(p.Spec.Volumes) == len(like.Volumes) {
		for i := range p.Spec.Volumes {
			if own, other := &p.Spec.Volumes[i].VolumeSource, &like.Volumes[i].VolumeSource; reflect.DeepEqual(own, other) {
				*own = *other
			}
		}
	}
	if maps.Equal(p.Spec.NodeSelector, like.NodeSelector) {
		p.Spec.NodeSelector = like.NodeSelector
	}
	adopt(&p.Spec.Tolerations, &like.Tolerations)
	adopt(&p.Spec.Affinity, &like.Affinity)
	adopt(&p.Spec.SecurityContext, &like.SecurityContext)
	adopt(&p.Spec.TopologySpreadConstraints, &like.TopologySpreadConstraints)
	if !same { // what is made from now on is more like this one
		s.put(key, &p.Spec)
	}
}

// shareContainers reports whether the environments, which are the most of a container, are now the same.
func shareContainers(own, other []corev1.Container) bool {
	if len(own) != len(other) {
		return false
	}
	same := true
	for i := range own {
		own, other := &own[i], &other[i]
		if sameEnv := slices.EqualFunc(own.Env, other.Env, equalEnv); sameEnv {
			own.Env = other.Env
		} else {
			same = false
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
	}
	return same
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

// like returns the pod that is remembered under a key; where there is none it remembers this one and returns nil.
func (s *sharer) like(key uint64, spec *corev1.PodSpec) *corev1.PodSpec {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.young[key]; known != nil {
		return known
	}
	if known := s.older[key]; known != nil {
		s.keep(key, known)
		return known
	}
	s.keep(key, spec)
	return nil
}

func (s *sharer) put(key uint64, spec *corev1.PodSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(key, spec)
}

func (s *sharer) keep(key uint64, spec *corev1.PodSpec) {
	if s.young == nil || len(s.young) >= maxTemplates {
		s.young, s.older = make(map[uint64]*corev1.PodSpec), s.young
	}
	kept := *spec
	s.young[key] = &kept
}
