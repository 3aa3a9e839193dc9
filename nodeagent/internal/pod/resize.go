package pod

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"howdah.dev/nodeagent/internal/cri"
)

// WholePod is the name under which what a pod asks for as a whole stands beside what its containers ask for.
const WholePod = ""

// Whole are the resources that a pod asks for as a whole; most ask for none.
func Whole(p *corev1.Pod) corev1.ResourceRequirements {
	if p.Spec.Resources == nil {
		return corev1.ResourceRequirements{}
	}
	return *p.Spec.Resources.DeepCopy()
}

// ToldWhole returns what the API tells of the resources that a pod as a whole was given, and of those that it has: of each what its specification names.
// It is not ok where an earlier agent has told nothing.
func ToldWhole(p *corev1.Pod) (given, applied corev1.ResourceRequirements, ok bool) {
	if p.Status.Resources == nil {
		return given, applied, false
	}
	whole := Whole(p)
	given.Requests, given.Limits = only(p.Status.AllocatedResources, whole.Requests), only(p.Status.Resources.Limits, whole.Limits)
	applied.Requests, applied.Limits = only(p.Status.Resources.Requests, whole.Requests), given.Limits
	return given, applied, true
}

// Within are the resources of the control group of a container that asks for own, in a pod that asks for whole: where the container has no limit,
// that of the pod is its own, so that programs see in their group what they may use.
func Within(whole, own corev1.ResourceRequirements) corev1.ResourceRequirements {
	out := *own.DeepCopy()
	for _, name := range resizable {
		limit, bounded := whole.Limits[name]
		if mine := own.Limits[name]; !bounded || !mine.IsZero() {
			continue
		}
		if out.Limits == nil {
			out.Limits = corev1.ResourceList{}
		}
		out.Limits[name] = limit
	}
	return out
}

// only returns the amounts whose names are among the keys of others.
func only(list, others corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name := range others {
		if q, ok := list[name]; ok {
			out[name] = q
		}
	}
	return out
}

// resizable are the resources that may change while a container runs.
var resizable = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// Room is what a node has for a pod.
type Room struct {
	Allocatable corev1.ResourceList
	// Others is what the node's other pods ask for.
	Others corev1.ResourceList
	// Fixed, where it is set, is why what the pod has cannot change, and FixedBy Kubernetes' short name for that.
	Fixed, FixedBy string
}

// Pending says why a pod does not get the resources that its specification asks for; Reason is a condition's:
// Infeasible or Deferred.
type Pending struct{ Reason, Message string }

// Resize gives one running container other resources, without a restart.
type Resize struct {
	ID, Name string
	To       corev1.ResourceRequirements
}

// Resized reports whether the pod asks for other resources than it was given before; given is by container name
// and WholePod.
func Resized(p *corev1.Pod, given map[string]corev1.ResourceRequirements) bool {
	if before, ok := given[WholePod]; ok && !equality.Semantic.DeepEqual(before, Whole(p)) {
		return true
	}
	for _, c := range containers(p) {
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
	if had, ok := given[WholePod]; ok && before.Spec.Resources != nil {
		before.Spec.Resources = had.DeepCopy()
	}
	for _, c := range containers(before) {
		if had, ok := given[c.Name]; ok {
			c.Resources = *had.DeepCopy()
		}
	}
	if room.Fixed != "" {
		return before, &Pending{corev1.PodReasonInfeasible, room.Fixed}
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

// Requests are the CPU and memory that a pod asks for.
func Requests(p *corev1.Pod) corev1.ResourceList {
	all := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
	out := corev1.ResourceList{}
	for _, name := range resizable {
		out[name] = all[name]
	}
	return out
}

// Peak is the pod with the larger of two limits and requests for itself and for each container: what its group needs while some have
// their new resources and some the old ones. No limit is larger than any. applied is by container name and WholePod.
func Peak(p *corev1.Pod, applied map[string]corev1.ResourceRequirements) *corev1.Pod {
	out := p.DeepCopy()
	if old, ok := applied[WholePod]; ok && out.Spec.Resources != nil {
		enlarge(out.Spec.Resources, old)
	}
	for _, c := range containers(out) {
		if old, ok := applied[c.Name]; ok {
			enlarge(&c.Resources, old)
		}
	}
	return out
}

// enlarge makes r as large as old.
func enlarge(r *corev1.ResourceRequirements, old corev1.ResourceRequirements) {
	for _, name := range resizable {
		if q, had := old.Limits[name]; !had {
			delete(r.Limits, name)
		} else if now, has := r.Limits[name]; has && q.Cmp(now) > 0 {
			r.Limits[name] = q
		}
		if q, now := old.Requests[name], r.Requests[name]; q.Cmp(now) > 0 {
			if r.Requests == nil {
				r.Requests = corev1.ResourceList{}
			}
			r.Requests[name] = q
		}
	}
}

// Given are the resources of the pod and of each container, by name and WholePod.
func Given(p *corev1.Pod) map[string]corev1.ResourceRequirements {
	given := map[string]corev1.ResourceRequirements{WholePod: Whole(p)}
	for _, c := range containers(p) {
		given[c.Name] = *c.Resources.DeepCopy()
	}
	return given
}

// containers are those whose resources may change: all but ephemeral ones, which have none.
func containers(p *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for i := range p.Spec.InitContainers {
		out = append(out, &p.Spec.InitContainers[i])
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
	if !known {
		return
	}
	has, wants := p.memory.Has(p.pod, run.ID), Within(Whole(p.pod), c.Resources)
	if equality.Semantic.DeepEqual(applied, c.Resources) && equality.Semantic.DeepEqual(has, wants) {
		return
	}
	p.plan.Resizing = true
	if restartsFor(c, has, wants) {
		p.plan.Regroup = true
		p.plan.Stop = append(p.plan.Stop, Stop{Run: run, Message: fmt.Sprintf("Container %s resize requires restart", c.Name)})
		p.plan.Start = append(p.plan.Start, Start{Container: c, Attempt: p.attempt(c.Name), Life: p.life.number, Backoff: p.memory.Backoff[c.Name]})
		return
	}
	if p.resizeWaits(c.Name) || p.resizeWaits(WholePod) {
		return
	}
	p.plan.Regroup = true
	p.plan.Resize = append(p.plan.Resize, Resize{ID: run.ID, Name: c.Name, To: c.Resources})
}

// resizeWaits reports whether a change that failed is to be waited for.
func (p *planner) resizeWaits(name string) bool {
	wait := p.memory.Resize[name].Until
	if !wait.After(p.now) {
		return false
	}
	p.wake(wait)
	return true
}

// resizeWhole plans that the pod's group gets other limits, where those of the pod as a whole have changed.
func (p *planner) resizeWhole() {
	applied, known := p.memory.Applied[WholePod]
	if !known || equality.Semantic.DeepEqual(applied, Whole(p.pod)) {
		return
	}
	p.plan.Resizing = true
	if !p.resizeWaits(WholePod) {
		p.plan.Regroup = true
	}
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

// wholeResources says in the pod's status what it was given as a whole, and with what it runs.
func wholeResources(s *corev1.PodStatus, pod *corev1.Pod, observed *cri.Pod, memory *Memory, plan Plan) {
	s.AllocatedResources = resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	if plan.Resizing {
		pod = inEffect(pod, observed, memory)
	}
	s.Resources = &corev1.ResourceRequirements{Requests: resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}), Limits: groupLimits(pod)}
}

// GiveAll says in a pod's status that it and its containers have what they ask for: nodes that run nothing give it at once.
func GiveAll(s *corev1.PodStatus, pod *corev1.Pod) {
	wholeResources(s, pod, nil, nil, Plan{})
	for _, c := range containers(pod) {
		for _, statuses := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
			if i := slices.IndexFunc(statuses, func(told corev1.ContainerStatus) bool { return told.Name == c.Name }); i >= 0 {
				statuses[i].Resources, statuses[i].AllocatedResources = c.Resources.DeepCopy(), maps.Clone(c.Resources.Requests)
			}
		}
	}
}

// inEffect is the pod with the resources that it and its runs have now.
func inEffect(pod *corev1.Pod, observed *cri.Pod, memory *Memory) *corev1.Pod {
	out := pod.DeepCopy()
	if applied, ok := memory.Applied[WholePod]; ok && out.Spec.Resources != nil {
		out.Spec.Resources = applied.DeepCopy()
	}
	for _, c := range containers(out) {
		if run := observed.Latest(c.Name); run != nil {
			if applied, ok := memory.Applied[run.ID]; ok {
				c.Resources = *applied.DeepCopy()
			}
		}
	}
	return out
}

// groupLimits are those of a pod's group: of what one container may use without bounds, so may the pod, unless it has a limit of its own.
func groupLimits(p *corev1.Pod) corev1.ResourceList {
	limits := resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{})
	own := Whole(p).Limits
	for _, name := range resizable {
		if _, bounded := own[name]; bounded {
			continue
		}
		for _, c := range containers(p) {
			if q := c.Resources.Limits[name]; q.IsZero() {
				delete(limits, name)
			}
		}
	}
	return limits
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
