package owner

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	me := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "me", Name: "me"}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "other", Name: "other"}}
	object := func(owner metav1.Object, selected, deleting bool) *corev1.Pod {
		o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "no"}}}
		if selected {
			o.Labels["app"] = "x"
		}
		if owner != nil {
			o.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}
		}
		if deleting {
			o.DeletionTimestamp = &metav1.Time{}
		}
		return o
	}
	for _, c := range []struct {
		name                string
		object              *corev1.Pod
		leaving             bool
		own, adopt, release int
	}{
		{"mine and selected", object(me, true, false), false, 1, 0, 0},
		{"mine, not selected", object(me, false, false), false, 0, 0, 1},
		{"mine, not selected, but I am leaving", object(me, false, false), true, 1, 0, 0},
		{"an orphan, selected", object(nil, true, false), false, 0, 1, 0},
		{"an orphan, selected, but I am leaving", object(nil, true, false), true, 0, 0, 0},
		{"an orphan that is leaving", object(nil, true, true), false, 0, 0, 0},
		{"an orphan, not selected", object(nil, false, false), false, 0, 0, 0},
		{"another's, selected", object(other, true, false), false, 0, 0, 0},
	} {
		owner := me.DeepCopy()
		if c.leaving {
			owner.DeletionTimestamp = &metav1.Time{}
		}
		got := Claim(owner, labels.SelectorFromSet(labels.Set{"app": "x"}), []*corev1.Pod{c.object})
		if len(got.Own) != c.own || len(got.Adopt) != c.adopt || len(got.Release) != c.release {
			t.Errorf("%s: %d own, %d adopted, %d released", c.name, len(got.Own), len(got.Adopt), len(got.Release))
		}
	}
}

func TestPatchesPinWhatTheySaw(t *testing.T) {
	t.Parallel()
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	me := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "me", Name: "me"}}
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "o", ResourceVersion: "7", OwnerReferences: []metav1.OwnerReference{{UID: "friend", Name: "friend"}}}}
	read := func(patch []byte, err error) (m metav1.ObjectMeta) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var p struct{ Metadata *metav1.ObjectMeta }
		p.Metadata = &m
		if err := json.Unmarshal(patch, &p); err != nil {
			t.Fatal(err)
		}
		if m.UID != "o" || m.ResourceVersion != "7" {
			t.Errorf("the patch does not pin its object: %s", patch)
		}
		return m
	}
	adopted := read(AdoptPatch(me, kind, o))
	if len(adopted.OwnerReferences) != 2 || !*adopted.OwnerReferences[1].Controller || !*adopted.OwnerReferences[1].BlockOwnerDeletion {
		t.Errorf("owners after adoption: %+v", adopted.OwnerReferences)
	}
	o.OwnerReferences = []metav1.OwnerReference{{UID: "me", Name: "me"}, {UID: "friend", Name: "friend"}}
	if again := read(AdoptPatch(me, kind, o)); len(again.OwnerReferences) != 2 || again.OwnerReferences[0].Controller == nil || !*again.OwnerReferences[0].Controller || again.OwnerReferences[1].UID != "friend" {
		t.Errorf("owners after adoption of what referred to its owner before: %+v", again.OwnerReferences)
	}
	o.OwnerReferences = adopted.OwnerReferences
	released := read(ReleasePatch("me", o))
	if len(released.OwnerReferences) != 1 || released.OwnerReferences[0].UID != "friend" {
		t.Errorf("owners after release: %+v", released.OwnerReferences)
	}
}
