package pressure

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"howdah.dev/nodeagent/internal/pod"
)

// Candidate is a pod that may have to end, with what it uses.
type Candidate struct {
	Pod *corev1.Pod
	// Known says that it was measured at all. Of others nobody knows what they do, so they go first.
	Known     bool
	Memory    int64 // working set, in bytes
	Processes int64
	// Layers is what its containers have written beside their volumes; Volumes are its emptyDir volumes on disk.
	Layers, Logs, Volumes Files
	Containers            []Container
}

// Container is what one container of it uses, in bytes; Disk are its layer and logs.
type Container struct {
	Name         string
	Memory, Disk int64
}

// Files is what files take up.
type Files struct{ Bytes, Inodes int64 }

func (f Files) plus(o Files) Files { return Files{f.Bytes + o.Bytes, f.Inodes + o.Inodes} }

// Protected says whether a pod stays whatever the node is short of: what the system needs, and what the node itself would only start again.
func Protected(p *corev1.Pod) bool { return pod.Critical(p) }

// rule compares two candidates: negative where a has to go before b.
type rule func(a, b *Candidate) int

// Rank orders the candidates, those that are to end first in front: who uses more than was asked for, then who is of less importance, then who uses the
// most beyond what was asked for.
func Rank(all []Candidate, s Signal, l Layout) []Candidate {
	out := slices.Clone(all)
	rules := []rule{unknown}
	switch s.kind().resource {
	case corev1.ResourceMemory:
		memory := func(c *Candidate) int64 { return c.Memory - request(c.Pod, corev1.ResourceMemory) }
		rules = append(rules, exceeding(memory), priority, most(memory))
	case corev1.ResourceEphemeralStorage:
		bytes := func(c *Candidate) int64 {
			return l.files(c, s).Bytes - request(c.Pod, corev1.ResourceEphemeralStorage)
		}
		rules = append(rules, exceeding(bytes), priority, most(bytes))
	case inodes: // nobody can ask for inodes: each that uses some exceeds
		count := func(c *Candidate) int64 { return l.files(c, s).Inodes }
		rules = append(rules, exceeding(count), priority, most(count))
	default:
		rules = append(rules, priority, most(func(c *Candidate) int64 { return c.Processes }))
	}
	slices.SortStableFunc(out, func(a, b Candidate) int {
		for _, r := range rules {
			if d := r(&a, &b); d != 0 {
				return d
			}
		}
		return 0
	})
	return out
}

// files are those that the candidate has on the signal's disk.
func (l Layout) files(c *Candidate, s Signal) Files {
	images := s == ImageFSAvailable || s == ImageFSInodesFree
	switch {
	case !l.ImagesApart: // all is on one disk
		return c.Layers.plus(c.Logs).plus(c.Volumes)
	case images && l.LayersApart:
		return c.Layers
	case images: // images alone are there, and those of pods that run are needed
		return Files{}
	case l.LayersApart:
		return c.Logs.plus(c.Volumes)
	}
	return c.Layers.plus(c.Logs).plus(c.Volumes)
}

func unknown(a, b *Candidate) int { return boolOrder(a.Known) - boolOrder(b.Known) }

func priority(a, b *Candidate) int { return cmp.Compare(importance(a.Pod), importance(b.Pod)) }

func importance(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

func exceeding(beyond func(c *Candidate) int64) rule {
	return func(a, b *Candidate) int { return boolOrder(beyond(b) > 0) - boolOrder(beyond(a) > 0) }
}

func most(used func(c *Candidate) int64) rule {
	return func(a, b *Candidate) int { return cmp.Compare(used(b), used(a)) }
}

// request is what the pod asks for as a whole.
func request(p *corev1.Pod, name corev1.ResourceName) int64 {
	q := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})[name]
	return q.Value()
}

// requestOf is what one container of it asks for.
func requestOf(p *corev1.Pod, name string, what corev1.ResourceName) resource.Quantity {
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return list[i].Resources.Requests[what]
			}
		}
	}
	return resource.Quantity{}
}
