package fieldmanager

import (
	"crypto/sha256"
	"reflect"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

// scaleOutcome is what a Scale has for entries, and its object after an update of the Scale. The times in both are those of the object's
// entries before.
type scaleOutcome struct{ scale, object outcome }

// ownersOf returns what the entries of a Scale follow from: of which resource the object is, and who owns what of it. nil is for what is not
// remembered: custom kinds, whose schema changes, and what Manager.ask does not remember either.
func ownersOf(res *registry.Resource, owned []metav1.ManagedFieldsEntry) []byte {
	if res.Kind.Custom != nil || len(owned) > maxEntries || fractional(owned) {
		return nil
	}
	b := appendText(make([]byte, 0, 4096), res.GVK.String())
	b, ok := appendEntries(b, owned, res.GVK.GroupVersion().String())
	if !ok {
		return nil
	}
	for i := range owned { // the library leaves those of Scales' managers without a time
		b = appendChange(b, owned[i].Time == nil, false)
	}
	return b
}

// ask returns what the outcome of an update follows from: who owns what, who makes it, and which of a Scale's fields it sets, changes and removes.
// nil is for an update that changes other metadata than what a Scale is answered with.
func (s *Scaled) ask(live, obj *autoscalingv1.Scale, manager string) []byte {
	if s.owners == nil || !bare(live.ObjectMeta) || !bare(obj.ObjectMeta) || live.TypeMeta != obj.TypeMeta {
		return nil
	}
	b := appendText(slices.Clip(s.owners), manager)
	b = appendText(appendText(b, obj.APIVersion), obj.Kind)
	b = appendChange(b, live.Name, obj.Name)
	b = appendChange(b, live.Namespace, obj.Namespace)
	b = appendChange(b, live.UID, obj.UID)
	b = appendChange(b, live.ResourceVersion, obj.ResourceVersion)
	b = appendChange(b, live.CreationTimestamp.IsZero(), obj.CreationTimestamp.IsZero())
	b = appendChange(b, live.CreationTimestamp.Unix(), obj.CreationTimestamp.Unix())
	b = appendChange(b, live.Spec.Replicas, obj.Spec.Replicas)
	b = appendChange(b, live.Status.Replicas, obj.Status.Replicas)
	return appendChange(b, live.Status.Selector, obj.Status.Selector)
}

// appendChange appends all that a comparison finds out about a field that is no structure.
func appendChange[T comparable](b []byte, before, after T) []byte {
	var none T
	var change byte
	for i, is := range []bool{before == none, after == none, before == after} {
		if is {
			change |= 1 << i
		}
	}
	return append(b, change)
}

// bare reports whether metadata has nothing but what a Scale is answered with. Managed fields in it are not looked at by an update.
func bare(m metav1.ObjectMeta) bool {
	m.Name, m.Namespace, m.UID, m.ResourceVersion, m.CreationTimestamp, m.ManagedFields = "", "", "", "", metav1.Time{}, nil
	return reflect.ValueOf(m).IsZero()
}

func (s *Scaled) recall(in *memo[scaleOutcome], question []byte) (scaleOutcome, bool) {
	if question == nil {
		return scaleOutcome{}, false
	}
	return in.Get(sha256.Sum256(question))
}

// remember keeps the outcome of what was asked at a time, unless the present was another second by then: the order of entries may follow from that.
func (s *Scaled) remember(in *memo[scaleOutcome], question []byte, asked *metav1.Time, scale, object []metav1.ManagedFieldsEntry) {
	if question == nil || seconds(present()) != seconds(asked) {
		return
	}
	in.Put(sha256.Sum256(question), scaleOutcome{timesOf(scale, s.owned), timesOf(object, s.owned)})
}

// timesOf reads out of entries, whose times went through text, which of them have the times of those before; the others have that of the update.
// Which of several that are equal does not matter: they are wherever the outcome is the same, since it follows from the order of all times.
func timesOf(entries, before []metav1.ManagedFieldsEntry) outcome {
	o := outcome{slices.Clone(entries), make([]int, len(entries))}
	for i := range entries {
		o.entries[i].Time = nil
		from := slices.IndexFunc(before, func(e metav1.ManagedFieldsEntry) bool { return seconds(e.Time) == seconds(entries[i].Time) })
		switch {
		case entries[i].Time == nil:
			from = noTime
		case from < 0:
			from = thisTime
		}
		o.times[i] = from
	}
	return o
}
