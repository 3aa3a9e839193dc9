package lookup

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

func TestObjectsAreReadOnceInAWhile(t *testing.T) {
	t.Parallel()
	api, client := objecttest.Start(t)
	clk := clocktesting.NewFakeClock(time.Now())
	o := New(client, nil, clk)
	if _, err := o.ConfigMap(t.Context(), "ns", "x"); err == nil || err.Error() != `configmap "x" not found` {
		t.Errorf("error %v", err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}, Data: map[string]string{"k": "1"}}
	cm, err := object.For(client, object.ConfigMap).Create(t.Context(), cm)
	if err != nil {
		t.Fatal(err)
	}
	before := api.Calls("get configmaps")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := o.ConfigMap(t.Context(), "ns", "x"); err != nil || got.Data["k"] != "1" {
				t.Errorf("read %v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if reads := api.Calls("get configmaps") - before; reads != 1 {
		t.Errorf("%d reads for 20 at once", reads)
	}
	cm.Data["k"] = "2"
	if _, err := object.For(client, object.ConfigMap).Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	clk.Step(Fresh)
	if got, err := o.ConfigMap(t.Context(), "ns", "x"); err != nil || got.Data["k"] != "2" {
		t.Errorf("later: %v, %v", got, err)
	}
}

// TestObjectsAreWhatTheyWereWithoutTheAPI: what was read once serves while the API is away, and nothing that it says is gone.
func TestObjectsAreWhatTheyWereWithoutTheAPI(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	var answer error
	reads := 0
	c := newCache(clk, func(context.Context, string, string) (string, error) {
		reads++
		return "value", answer
	})
	get := func(when, want string, reading bool) {
		t.Helper()
		before := reads
		got, err := c.get(t.Context(), "ns", "x")
		if got != want || (err == nil) != (want != "") || (reads > before) != reading {
			t.Errorf("%s: %q, %v, read: %v", when, got, err, reads > before)
		}
	}
	away := fmt.Errorf("read: %w", apierrors.NewServiceUnavailable("away"))
	answer = away
	get("never read, and away", "", true)
	answer = nil
	get("read", "value", true)
	answer = away
	clk.Step(Fresh)
	get("away", "value", true)
	get("away, a moment later", "value", false)
	clk.Step(Fresh)
	get("away for long", "value", true)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	clk.Step(Fresh)
	if _, err := c.get(ended, "ns", "x"); err == nil {
		t.Error("who has given up is answered")
	}
	answer = apierrors.NewNotFound(corev1.Resource("configmaps"), "x")
	get("gone", "", true)
	answer = away
	get("gone, and away", "", true)
}

// TestNewsAreNotWaitedForLong: what is known has a deadline of its own, what is not has the caller's.
func TestNewsAreNotWaitedForLong(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	var bounded []bool
	c := newCache(clk, func(ctx context.Context, _, _ string) (string, error) {
		_, is := ctx.Deadline()
		bounded = append(bounded, is)
		return "value", nil
	})
	for range 2 {
		if _, err := c.get(context.WithoutCancel(t.Context()), "ns", "x"); err != nil {
			t.Fatal(err)
		}
		clk.Step(Fresh)
	}
	if len(bounded) != 2 || bounded[0] || !bounded[1] {
		t.Errorf("reads with a deadline: %v", bounded)
	}
}

// TestMuchIsForgotten, but what pods have.
func TestMuchIsForgotten(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	c := newCache(clk, func(_ context.Context, _, name string) (string, error) { return name, nil })
	for n := range 300 {
		if _, err := c.get(t.Context(), "ns", strconv.Itoa(n)); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.entries) != 300 {
		t.Errorf("%d of 300 that were just asked for", len(c.entries))
	}
	clk.Step(kept)
	for _, name := range []string{"7", "new"} {
		if _, err := c.get(t.Context(), "ns", name); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.entries) != 2 {
		t.Errorf("%d are left, of which two were asked for of late", len(c.entries))
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	o := New(client, nil, clocktesting.NewFakeClock(time.Now()))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{ServiceAccountName: "sa"}}
	token, expires, err := o.Token(t.Context(), pod, "", 600)
	if err != nil || token != "token-sa-1" || time.Until(expires) < 9*time.Minute {
		t.Errorf("token %q until %v, %v", token, expires, err)
	}
}
