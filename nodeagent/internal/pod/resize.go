package pod

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/nodeagent/internal/cri"
)

// resizable are the resources that may change while a container runs.
var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Room is what a node has for a pod.
type Room struct {
	Allocatable corev1.ResourceList
	// Others is what the node's other pods ask for.
	Others corev1.ResourceList
}

// Pending says why a pod does not get the resources that its specification asks for; Reason is a condition's:
// Infeasible or Deferred.
type Pending struct{ Reason, Message string }

// Resize gives one running container other resources, without a restart.
type Resize struct {
	ID, Name string
	To       corev1.ResourceRequirements
}

// Resized reports whether the pod asks for other resources than it was given before; given is by container name.
func Resized(p *corev1.Pod, given map[string]corev1.ResourceRequirements) bool {
	for _, c := range longRunning(p) {
		if before, ok := given[c.Name]; ok && !equality.Semantic.DeepEqual(before, c.Resources) {
			return true
		}
	}
	return false
}

// Allocate decides about the resources that a pod asks for, beside what it was given before: it gets all of it or stays
// with what it has. The pod that it returns asks for what it gets. What a container asks for first was the
// scheduler's to decide.
func Allocate(p *corev1.Pod, given map[string]corev1.ResourceRequirements, room Room) (*corev1.Pod, *Pending) {
	if !Resized(p, given) {
		return p, nil
	}
	before := p.DeepCopy()
	for _, c := range longRunning(before) {
		if had, ok := given[c.Name]; ok {
			c.Resources = *had.DeepCopy()
		}
	}
	for _, name := range resizable {
		was, wanted := Requests(before)[name], Requests(p)[name]
		if wanted.Cmp(was) <= 0 {
			continue
		}
		capacity, used := room.Allocatable[name], room.Others[name]
		all := wanted.DeepCopy()
		all.Add(used)
		switch {
		case wanted.Cmp(capacity) > 0:
			return before, &Pending{corev1.PodReasonInfeasible, fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d",
				name, units(name, wanted), units(name, capacity))}
		case all.Cmp(capacity) > 0:
			return before, &Pending{corev1.PodReasonDeferred, fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
				name, units(name, wanted), units(name, used), units(name, capacity))}
		}
	}
	return p, nil
}

func units(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// Requests are the CPU and memory that a pod's long-running containers ask for together.
func Requests(p *corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, c := range longRunning(p) {
		for _, name := range resizable {
			total := sum[name]
			total.Add(c.Resources.Requests[name])
			sum[name] = total
		}
	}
	return sum
}

// Peak is the pod with the larger of two limits and requests for each container: what its group needs while some have
// their new resources and some the old ones. No limit is larger than any.
func Peak(p *corev1.Pod, applied map[string]corev1.ResourceRequirements) *corev1.Pod {
	out := p.DeepCopy()
	for _, c := range longRunning(out) {
		old, ok := applied[c.Name]
		if !ok {
			continue
		}
		for _, name := range resizable {
			if q, had := old.Limits[name]; !had {
				delete(c.Resources.Limits, name)
			} else if now, has := c.Resources.Limits[name]; has && q.Cmp(now) > 0 {
				c.Resources.Limits[name] = q
			}
			if q, now := old.Requests[name], c.Resources.Requests[name]; q.Cmp(now) > 0 {
				if c.Resources.Requests == nil {
					c.Resources.Requests = corev1.ResourceList{}
				}
				c.Resources.Requests[name] = q
			}
		}
	}
	return out
}

// Given are the resources of each long-running container, by name.
func Given(p *corev1.Pod) map[string]corev1.ResourceRequirements {
	given := map[string]corev1.ResourceRequirements{}
	for _, c := range longRunning(p) {
		given[c.Name] = *c.Resources.DeepCopy()
	}
	return given
}

func longRunning(p *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for i := range p.Spec.InitContainers {
		if Sidecar(&p.Spec.InitContainers[i]) {
			out = append(out, &p.Spec.InitContainers[i])
		}
	}
	for i := range p.Spec.Containers {
		out = append(out, &p.Spec.Containers[i])
	}
	return out
}

// restartsFor reports whether the container's policy wants a restart for the change from one to the other.
func restartsFor(c *corev1.Container, from, to corev1.ResourceRequirements) bool {
	for _, policy := range c.ResizePolicy {
		limitWas, limitIs := from.Limits[policy.ResourceName], to.Limits[policy.ResourceName]
		requestWas, requestIs := from.Requests[policy.ResourceName], to.Requests[policy.ResourceName]
		if policy.RestartPolicy == corev1.RestartContainer && (limitWas.Cmp(limitIs) != 0 || requestWas.Cmp(requestIs) != 0) {
			return true
		}
	}
	return false
}

// resize plans that a running container gets other resources, where it has not those that it asks for. One that is to
// be restarted for it runs again whatever its policy says of its end, so both are one plan.
func (p *planner) resize(c *corev1.Container, run *cri.Container) {
	applied, known := p.memory.Applied[run.ID]
	if !known || equality.Semantic.DeepEqual(applied, c.Resources) {
		return
	}
	p.plan.Resizing = true
	if restartsFor(c, applied, c.Resources) {
		p.plan.Regroup = true
		p.plan.Stop = append(p.plan.Stop, Stop{Run: run, Message: fmt.Sprintf("Container %s resize requires restart", c.Name)})
		p.plan.Start = append(p.plan.Start, Start{Container: c, Attempt: p.attempt(c.Name), Backoff: p.memory.Backoff[c.Name]})
		return
	}
	if wait := p.memory.Resize[c.Name]; wait.Until.After(p.now) {
		p.wake(wait.Until)
		return
	}
	p.plan.Regroup = true
	p.plan.Resize = append(p.plan.Resize, Resize{ID: run.ID, Name: c.Name, To: c.Resources})
}

// resizeConditions say what has become of other resources that the pod asks for.
func resizeConditions(s *corev1.PodStatus, pod *corev1.Pod, memory *Memory, plan Plan, now time.Time) {
	set := func(kind corev1.PodConditionType, present bool, reason, message string) {
		if present {
			setCondition(s, pod, now, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message})
			return
		}
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	}
	pending := Pending{}
	if memory.Pending != nil {
		pending = *memory.Pending
	}
	set(corev1.PodResizePending, memory.Pending != nil, pending.Reason, pending.Message)
	reason, message := "", ""
	for _, name := range slices.Sorted(maps.Keys(memory.Resize)) {
		reason, message = corev1.PodReasonError, memory.Resize[name].Message
	}
	set(corev1.PodResizeInProgress, plan.Resizing, reason, message)
}

// resources says in a container's status what it was given, and with what it runs.
func (w *writer) resources(s *corev1.ContainerStatus, c *corev1.Container) {
	given := c.Resources
	s.AllocatedResources = maps.Clone(given.Requests)
	if run := w.observed.Latest(c.Name); run != nil {
		if applied, ok := w.memory.Applied[run.ID]; ok {
			given = applied
		}
	}
	s.Resources = given.DeepCopy()
}
