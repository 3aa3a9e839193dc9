package written

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestBehind waits for the cache to show what was written, and not for ever: the API may have lost it.
func TestBehind(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	v := New(clock)
	of := func(version string) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: version}}
	}
	is := func(what, version string, want bool) {
		t.Helper()
		if got := v.Behind(of(version)); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	is("before anything was written", "9", false)
	v.Wrote(of("10"))
	is("older than what was written", "9", true)
	is("what was written", "10", false)
	is("newer, of another number of digits", "100", false)
	clock.SetTime(clock.Now().Add(Patience))
	is("older, after a while", "9", false)
	v.Wrote(of("11"))
	is("older than the next", "10", true)
	v.Forget("a")
	is("of an object that is gone", "9", false)
}

// TestHidden waits for the cache to come as far as what was written, whether or not it holds it then.
func TestHidden(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	v := New(clock)
	far := uint64(9) // how far the cache has come
	is := func(what string, want bool) {
		t.Helper()
		if got := v.Hidden("a", func(version uint64) bool { return far >= version }); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	is("before anything was written", false)
	v.Note("a", 10)
	is("not shown", true)
	far = 10
	is("shown", false)
	far = 9
	clock.SetTime(clock.Now().Add(Patience))
	is("not shown for long", false)
}
