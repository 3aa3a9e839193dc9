package fieldmanager

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/openapi"
	"howdah.dev/services/apiserver/internal/registry"
)

// randomScale is a Scale as clients send it: some of what they read of it, or what they make anew, and other replicas or not.
func randomScale(r *rand.Rand, live *autoscalingv1.Scale) *autoscalingv1.Scale {
	obj := live.DeepCopy()
	obj.Spec.Replicas = int32(r.IntN(3))
	obj.Status.Replicas = int32(r.IntN(2))
	if r.IntN(2) == 0 {
		obj.UID, obj.ResourceVersion, obj.CreationTimestamp, obj.Status = "", "", metav1.Time{}, autoscalingv1.ScaleStatus{}
	}
	switch r.IntN(6) {
	case 0:
		obj.Labels = map[string]string{"a": fmt.Sprint(r.IntN(2))}
	case 1:
		obj.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "nobody", Operation: metav1.ManagedFieldsOperationUpdate}}
	case 2:
		obj.ResourceVersion = "7"
	}
	return obj
}

// settled puts entries in an order of their own where the library leaves it to chance: it may tell two of one owner, of which one has come
// from the Scale.
func settled(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	for i := range entries {
		for j := range i {
			if sameOwner(&entries[i], &entries[j]) {
				entries = slices.Clone(entries)
				slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int { return strings.Compare(a.String(), b.String()) })
				return entries
			}
		}
	}
	return entries
}

// What is remembered of updates of Scales is what the library says: over random owners of several ages, managers and changes.
func TestUpdatesOfScalesAreRemembered(t *testing.T) {
	t.Parallel()
	table, err := registry.NewTable(kind.All(kind.Config{Now: time.Now}))
	if err != nil {
		t.Fatal(err)
	}
	managers := New(table, openapi.New(table, nil, "1.36").Others)
	managersOf, remembered, again := []string{"creator", "autoscaler", "kubectl"}, 0, 0
	for _, name := range []string{"deployment-v1", "replicaset-v1", "replicationcontroller"} {
		input, ok := inputs(t, managers)[name]
		if !ok {
			t.Fatalf("there is no manifest of a %s", name)
		}
		res, first := input()
		for seed := range uint64(12) {
			r := rand.New(rand.NewPCG(seed, 2))
			live := first.DeepCopyObject().(registry.Object)
			live.SetUID("u")
			created(t, managers, res, live, "creator")
			for step := range 12 {
				what := fmt.Sprintf("%s, seed %d, step %d", name, seed, step)
				age(r, live)
				scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "d", UID: "u", ResourceVersion: "6", CreationTimestamp: *present()}, Spec: autoscalingv1.ScaleSpec{Replicas: int32(r.IntN(2))}}
				scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
				obj, by := randomScale(r, scale), managersOf[r.IntN(len(managersOf))]
				update := func(forgetful bool) (entries, old, next []metav1.ManagedFieldsEntry) {
					scaled, err := managers.ForScale(res, live.GetManagedFields())
					if forgetful {
						if scaled.owners = nil; err == nil {
							scaled.entries, err = scaled.handler().ToSubresource()
						}
					}
					if err != nil {
						t.Fatal(err)
					}
					question := scaled.ask(scale, obj, by)
					if _, known := scaled.recall(&managers.scaleUpdates, question); known {
						again++
					} else if question != nil {
						remembered++
					}
					after := obj.DeepCopy()
					entries, err = scaled.Update(scale, after, by)
					if err != nil {
						t.Fatal(err)
					}
					return entries, scaled.Entries(), after.ManagedFields
				}
				want, old, next := update(true)
				for _, round := range []string{"first", "again"} {
					got, gotOld, gotNext := update(false)
					sameOutcome(t, what+", object, "+round, settled(got), settled(want))
					sameOutcome(t, what+", scale before, "+round, gotOld, old)
					sameOutcome(t, what+", scale after, "+round, gotNext, next)
				}
				live.SetManagedFields(want)
			}
		}
	}
	if remembered == 0 || again < remembered/2 {
		t.Errorf("%d were remembered, %d asked for again", remembered, again)
	}
}

// A change of metadata that a Scale is not answered with, or over entries of other versions or of odd times is not remembered.
func TestWhatIsNotRememberedOfScales(t *testing.T) {
	t.Parallel()
	res := newManagers(t).table.FindKind(autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	then := metav1.NewTime(time.Unix(1, 0))
	entry := metav1.ManagedFieldsEntry{Manager: "m", Operation: "Update", APIVersion: res.GVK.GroupVersion().String(), Time: &then}
	if ownersOf(res, []metav1.ManagedFieldsEntry{entry}) == nil {
		t.Error("one that is as others is not remembered")
	}
	other := entry
	other.APIVersion = "apps/v1beta1"
	fraction := entry
	fraction.Time = &metav1.Time{Time: time.Unix(1, 5)}
	for name, e := range map[string]metav1.ManagedFieldsEntry{"of another version": other, "of a fraction of a second": fraction} {
		if ownersOf(res, []metav1.ManagedFieldsEntry{e}) != nil {
			t.Errorf("an entry %s is remembered", name)
		}
	}
	if bare(metav1.ObjectMeta{Name: "n", Finalizers: []string{"a"}}) || !bare(metav1.ObjectMeta{Name: "n", ManagedFields: []metav1.ManagedFieldsEntry{entry}}) {
		t.Error("what else there is in metadata is not seen, or managed fields are")
	}
}
