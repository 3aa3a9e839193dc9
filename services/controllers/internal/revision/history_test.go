package revision

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
	"howdah.dev/services/controllers/internal/owner"
)

// start returns the history of an API that has the revisions.
func start(t *testing.T, revisions ...*appsv1.ControllerRevision) (*controllertest.Cluster, *History) {
	t.Helper()
	var h *History
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		for _, r := range revisions {
			controllertest.Create(c, object.ControllerRevision, r)
		}
	}, func(env *controller.Env) (controller.Unit, error) {
		h = NewHistory(env)
		return controller.Unit{}, nil
	})
	return c, h
}

// liveOf reads an owner as it is in the cache.
func liveOf(o Owner) owner.Live {
	return func(context.Context) (metav1.Object, error) { return o, nil }
}

func (h *History) mustList(t *testing.T, o Owner) []*appsv1.ControllerRevision {
	t.Helper()
	list, err := h.Of(t.Context(), o, labels.SelectorFromSet(app), liveOf(o))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestRecordCreatesOnce(t *testing.T) {
	t.Parallel()
	c, h := start(t)
	o := newOwner(template("one"))
	first, collisions, err := h.Record(t.Context(), o, nil)
	if err != nil || first.Revision != 1 || collisions != 0 {
		t.Fatalf("revision %+v, %d collisions, %v", first, collisions, err)
	}
	// The cache has not shown it yet.
	again, collisions, err := h.Record(t.Context(), o, nil)
	if err != nil || again.Name != first.Name || collisions != 0 {
		t.Errorf("revision %+v, %d collisions, %v", again, collisions, err)
	}
	if n := len(controllertest.List(c, object.ControllerRevision)); n != 1 {
		t.Errorf("%d revisions, want 1", n)
	}
}

func TestRecordAvoidsATakenName(t *testing.T) {
	t.Parallel()
	taken := revisionOf(t, "one", 1)
	taken.Data.Raw = []byte(`{"spec":{}}`)
	_, h := start(t, taken)
	r, collisions, err := h.Record(t.Context(), newOwner(template("one")), nil)
	if err != nil || collisions != 1 || r.Name == taken.Name {
		t.Errorf("revision %+v, %d collisions, %v", r, collisions, err)
	}
}

func TestRecordRollsBack(t *testing.T) {
	t.Parallel()
	c, h := start(t, revisionOf(t, "one", 1), revisionOf(t, "two", 2))
	o := newOwner(template("one"))
	r, _, err := h.Record(t.Context(), o, h.mustList(t, o))
	if err != nil || r.Revision != 3 || r.Name != revisionOf(t, "one", 1).Name {
		t.Errorf("revision %+v, %v", r, err)
	}
	if n := len(controllertest.List(c, object.ControllerRevision)); n != 2 {
		t.Errorf("%d revisions, want 2", n)
	}
}

func TestOfAdoptsAndReleases(t *testing.T) {
	t.Parallel()
	orphan, leaver, stranger := revisionOf(t, "one", 1), revisionOf(t, "two", 2), revisionOf(t, "three", 3)
	orphan.OwnerReferences = nil
	leaver.Labels = map[string]string{"app": "other"}
	stranger.OwnerReferences[0].UID = "another"
	c, h := start(t, orphan, leaver, stranger)
	o := newOwner(template("one"))

	replaced := newOwner(template("one"))
	replaced.SetUID("a later one")
	if _, err := h.Of(t.Context(), o, labels.SelectorFromSet(app), liveOf(replaced)); err == nil {
		t.Error("an orphan was adopted by one that is gone")
	}
	if list := h.mustList(t, o); len(list) != 1 || list[0].Name != orphan.Name || !metav1.IsControlledBy(list[0], o) {
		t.Errorf("revisions %+v", list)
	}
	for _, r := range controllertest.List(c, object.ControllerRevision) {
		if owned := metav1.IsControlledBy(r, o); owned != (r.Name == orphan.Name) {
			t.Errorf("revision %s is the owner's: %t", r.Name, owned)
		}
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	c, h := start(t, revisionOf(t, "one", 1), revisionOf(t, "two", 2))
	list := h.mustList(t, newOwner(template("one")))
	if err := h.Delete(t.Context(), list[:1]); err != nil {
		t.Fatal(err)
	}
	if err := h.Delete(t.Context(), list[:1]); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if n := len(controllertest.List(c, object.ControllerRevision)); n != 1 {
		t.Errorf("%d revisions are left, want 1", n)
	}
}
