// Package resourcequota counts what namespaces use of their quotas. The apiserver adds what is created in the transaction that
// creates it; here everything is counted anew when something has gone, and when a quota is new or changed.
package resourcequota

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/internal/quota"
)

// The resources whose objects have to be looked into.
var (
	pods     = schema.GroupResource{Resource: "pods"}
	services = schema.GroupResource{Resource: "services"}
	claims   = schema.GroupResource{Resource: "persistentvolumeclaims"}
	devices  = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}
)

// Needs is what must be known to count a quota.
type Needs struct {
	// Whole are the resources whose objects must be read, Number those that need only be counted.
	Whole, Number []schema.GroupResource
}

// NeedsOf returns what a quota's limits are about.
func NeedsOf(q *corev1.ResourceQuota) Needs {
	var n Needs
	scoped := len(quota.Scopes(&q.Spec)) > 0
	for _, name := range quota.Names(q.Spec.Hard) {
		whole := false
		for _, gr := range []schema.GroupResource{pods, services, claims, devices} {
			if !quota.Relevant(gr, name) {
				continue
			}
			if _, plain := quota.Counted(name); plain && !scoped {
				continue // its number is enough
			}
			whole = true
			if !slices.Contains(n.Whole, gr) {
				n.Whole = append(n.Whole, gr)
			}
		}
		gr, ok := quota.Counted(name)
		// A scope holds pods and claims only: it counts none of the others.
		if ok && !whole && !scoped && !slices.Contains(n.Number, gr) {
			n.Number = append(n.Number, gr)
		}
	}
	return n
}

// All returns the resources of which the end of an object matters.
func (n Needs) All() []schema.GroupResource { return slices.Concat(n.Whole, n.Number) }

// Seen is what there is in a quota's namespace.
type Seen struct {
	Objects map[schema.GroupResource][]any
	Numbers map[schema.GroupResource]int64
	// Classes are all DeviceClasses, where claims to devices are among the objects.
	Classes []*resourcev1.DeviceClass
}

// known is what claims to devices are counted with. Pods are among the objects wherever extended resources are limited.
func (s Seen) known() quota.Known {
	byName := map[string]*corev1.Pod{}
	var claims []*resourcev1.ResourceClaim
	for _, obj := range s.Objects[devices] {
		if c, ok := obj.(*resourcev1.ResourceClaim); ok {
			claims = append(claims, c)
		}
	}
	if len(claims) > 0 {
		for _, obj := range s.Objects[pods] {
			if p, ok := obj.(*corev1.Pod); ok {
				byName[p.Name] = p
			}
		}
	}
	return quota.Known{
		Classes: s.Classes,
		Pod:     func(name string) *corev1.Pod { return byName[name] },
		Claims:  func() []*resourcev1.ResourceClaim { return claims },
	}
}

// Used returns what the quota's namespace uses, of all that the quota limits.
func Used(q *corev1.ResourceQuota, seen Seen, now time.Time) corev1.ResourceList {
	total, known := quota.List{}, seen.known()
	for gr, objects := range seen.Objects {
		for _, obj := range objects {
			if quota.Counts(&q.Spec, obj) {
				total = quota.Add(total, quota.Mask(quota.Usage(gr, obj, now, known), q.Spec.Hard))
			}
		}
	}
	for gr, n := range seen.Numbers {
		for name := range q.Spec.Hard {
			if counted, ok := quota.Counted(name); ok && counted == gr {
				total[name] = *resource.NewQuantity(n, resource.DecimalSI)
			}
		}
	}
	for name, hard := range q.Spec.Hard {
		if _, ok := total[name]; !ok {
			total[name] = *resource.NewQuantity(0, hard.Format)
		}
	}
	return total
}

// Status returns the status that the quota should have, and whether that is news.
func Status(q *corev1.ResourceQuota, used corev1.ResourceList) (corev1.ResourceQuotaStatus, bool) {
	status := corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: used}
	return status, !quota.Equal(q.Status.Hard, status.Hard) || !quota.Equal(q.Status.Used, status.Used)
}

// NextEnd returns how long it takes until a pod that is being deleted counts no more though nobody has confirmed its end; 0 is never.
func NextEnd(seen Seen, now time.Time) time.Duration {
	var next time.Duration
	for _, obj := range seen.Objects[pods] {
		pod, ok := obj.(*corev1.Pod)
		if !ok || pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil || quota.Ended(pod, now) {
			continue
		}
		end := pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second).Sub(now)
		if end = max(end, 0) + time.Second; next == 0 || end < next {
			next = end
		}
	}
	return next
}

// freed reports whether a change of a pod may free quota.
func freed(old, new *corev1.Pod, now time.Time) bool {
	switch {
	case old == nil:
		return false
	case new == nil:
		return true
	case quota.Ended(new, now) && !quota.Ended(old, now), old.DeletionTimestamp == nil && new.DeletionTimestamp != nil:
		return true
	}
	before, after := quota.Usage(pods, old, now, quota.Known{}), quota.Usage(pods, new, now, quota.Known{})
	for name := range maps.Keys(before) {
		was, is := before[name], after[name]
		if is.Cmp(was) < 0 {
			return true
		}
	}
	return false
}
