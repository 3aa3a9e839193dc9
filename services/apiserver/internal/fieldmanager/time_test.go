package fieldmanager

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEntriesHaveTheTimeOfTheLastChange holds that an entry has the time of the last write with which its manager changed a field,
// whether or not it owned that field before, and that a write which changes nothing leaves all times as they are.
func TestEntriesHaveTheTimeOfTheLastChange(t *testing.T) {
	managers := newManagers(t)
	res := managers.table.FindKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	m, err := managers.For(res, "")
	if err != nil {
		t.Fatal(err)
	}
	old := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	live := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"a": "1"}}
	m.Create(emptyOf(res), live, "mine")
	theirs := live.DeepCopy()
	theirs.Data["b"] = "1"
	m.Update(live, theirs, "theirs")
	for i := range theirs.ManagedFields {
		theirs.ManagedFields[i].Time = &old
	}
	live = theirs
	for range 3 { // tracked in full, and remembered
		changed := live.DeepCopy()
		changed.Data["a"] = "2"
		m.Update(live, changed, "mine")
		Settle(live, changed)
		for _, e := range changed.ManagedFields {
			if renewed := !e.Time.Equal(&old); renewed != (e.Manager == "mine") {
				t.Errorf("after a change by mine, the entry of %s is of %s", e.Manager, e.Time)
			}
		}
		same := live.DeepCopy()
		m.Update(live, same, "mine")
		Settle(live, same)
		if !sameEntries(live.ManagedFields, same.ManagedFields) {
			t.Errorf("a write that changes nothing leaves %v", same.ManagedFields)
		}
	}
	// What admission or the kind puts back is no change either.
	undone := live.DeepCopy()
	undone.Data["b"] = "2"
	m.Update(live, undone, "theirs")
	undone.Data["b"] = "1"
	Settle(live, undone)
	if !sameEntries(live.ManagedFields, undone.ManagedFields) {
		t.Errorf("a change that was undone leaves %v", undone.ManagedFields)
	}
}
