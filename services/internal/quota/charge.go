package quota

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Write is a change of one object, as quotas see it.
type Write struct {
	Resource schema.GroupResource
	// Object is the new state and Old the one before, nil where the object is new.
	Object, Old any
	Now         time.Time
	Known       Known
}

// Delta returns what the write consumes in all, by every name.
func (w Write) Delta() (List, error) {
	now := Usage(w.Resource, w.Object, w.Now, w.Known)
	var negative []string
	for _, name := range Names(now) {
		if q := now[name]; q.Sign() < 0 {
			negative = append(negative, string(name))
		}
	}
	if len(negative) > 0 {
		return nil, fmt.Errorf("quota usage is negative for resource(s): %s", strings.Join(negative, ","))
	}
	if w.Old == nil {
		return Delta(now, nil), nil
	}
	return Delta(now, Usage(w.Resource, w.Old, w.Now, w.Known)), nil
}

// deltaFor is Delta for one quota: an object that comes into its scopes is all new to it, and one that leaves them is gone.
func (w Write) deltaFor(q *corev1.ResourceQuota, delta List) List {
	now, before := Counts(&q.Spec, w.Object), w.Old != nil && Counts(&q.Spec, w.Old)
	switch {
	case now && (before || w.Old == nil):
		return delta
	case now:
		return Delta(Usage(w.Resource, w.Object, w.Now, w.Known), nil)
	case before:
		return Delta(nil, Usage(w.Resource, w.Old, w.Now, w.Known))
	}
	return nil
}

// Charge returns what the write, which consumes delta in all, adds to or takes from the quota's status.used; an empty list where the quota
// does not mind it. It fails where the quota forbids the write.
func (w Write) Charge(q *corev1.ResourceQuota, delta List) (List, error) {
	if delta = w.deltaFor(q, delta); len(delta) == 0 {
		return nil, nil
	}
	var limited []corev1.ResourceName
	var unknown []string
	for _, name := range Names(q.Status.Hard) {
		if !Relevant(w.Resource, name) {
			continue
		}
		limited = append(limited, name)
		if _, ok := q.Status.Used[name]; !ok {
			unknown = append(unknown, string(name))
		}
	}
	if len(limited) == 0 {
		return nil, nil
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("status unknown for quota: %s, resources: %s", q.Name, strings.Join(unknown, ","))
	}
	if Counts(&q.Spec, w.Object) {
		if err := Constraints(w.Object, limited); err != nil {
			return nil, fmt.Errorf("failed quota: %s: %w", q.Name, err)
		}
	}
	charge := Mask(delta, q.Status.Hard)
	if err := Fits(q, charge); err != nil {
		return nil, err
	}
	return charge, nil
}

// ErrExceeded is what a refusal for want of quota wraps.
var ErrExceeded = errors.New("exceeded quota")

// Fits fails where the quota's status cannot take the charge. What takes less than before always fits.
func Fits(q *corev1.ResourceQuota, charge List) error {
	requested, used, limit := List{}, List{}, List{}
	for name, more := range charge {
		total, hard := q.Status.Used[name].DeepCopy(), q.Status.Hard[name]
		total.Add(more)
		if more.Sign() > 0 && total.Cmp(hard) > 0 {
			requested[name], used[name], limit[name] = more, q.Status.Used[name], hard
		}
	}
	if len(requested) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s, requested: %s, used: %s, limited: %s", ErrExceeded, q.Name, Format(requested), Format(used), Format(limit))
}
