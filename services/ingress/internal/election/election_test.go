package election

import (
	"context"
	"errors"
	"testing"
	"time"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

func wait[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("not within a minute: %s", what)
		panic("unreachable")
	}
}

func TestOneLeadsAndTheNextFollows(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	leads := make(chan string, 10)
	run := func(holder string) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- New(client, "kube-system", "test", holder).Run(ctx, func(ctx context.Context) error {
				leads <- holder
				<-ctx.Done()
				leads <- holder + " ends"
				return ctx.Err()
			})
		}()
		return func() {
			cancel()
			if err := wait(t, done, "the end"); !errors.Is(err, context.Canceled) {
				t.Errorf("%s ended with %v", holder, err)
			}
		}
	}
	stopA := run("a")
	if got := wait(t, leads, "a leader"); got != "a" {
		t.Fatal(got)
	}
	stopB := run("b")
	lease, err := object.For(client, object.Lease).Get(t.Context(), "kube-system", "test")
	if err != nil || *lease.Spec.HolderIdentity != "a" {
		t.Fatalf("%v, %v", lease, err)
	}
	stopA() // it gives the Lease up, and b need not wait for its end
	if got := wait(t, leads, "the first one's end"); got != "a ends" {
		t.Fatal(got)
	}
	begin := time.Now()
	if got := wait(t, leads, "another leader"); got != "b" {
		t.Fatal(got)
	}
	if took := time.Since(begin); took > believed {
		t.Errorf("b leads after %v", took)
	}
	stopB()
}

func TestLeadersOwnEndEndsTheElection(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	broken := errors.New("broken")
	if err := New(client, "kube-system", "test", "a").Run(t.Context(), func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("ended with %v", err)
	}
}
