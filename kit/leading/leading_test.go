package leading_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/leading"
	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

// world is an API and a role that knows its config maps.
type world struct {
	election *leadingtest.Election
	role     leading.Role
	maps     *object.Informer[*corev1.ConfigMap]

	mu     sync.Mutex
	fences []string // of what was written
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{election: leadingtest.New()}
	api := objecttest.New()
	api.Intercept = func(write objecttest.Write) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if write.Fence != "" {
			w.fences = append(w.fences, write.Fence)
		}
		return nil
	}
	client := api.Serve(t)
	informers := object.NewInformers(client)
	w.maps = object.InformerFor(informers, object.ConfigMap, object.Option{})
	w.role = leading.Role{Name: "painter", Leadership: w.election, Objects: client, Informers: informers, Clock: clock.RealClock{}}
	return w
}

// write writes a config map as whoever led last.
func (w *world) write(ctx context.Context, name string) error {
	_, err := object.For(w.role.Objects, object.ConfigMap).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	return err
}

// run runs f until the test ends, or it does, and returns what gets its error.
func run(t *testing.T, f func(ctx context.Context) error) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- f(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return ended
}

func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("%s: not within a minute", what)
		panic("unreachable")
	}
}

// TestTerms: each term writes with its epoch, begins with caches that show what was written before it, and has another after it.
func TestTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run(t, w.role.Informers.Run)
	began := make(chan int)
	run(t, func(ctx context.Context) error {
		return w.role.Terms(ctx, func(ctx context.Context) error {
			cached := len(w.maps.List("default"))
			if err := w.write(ctx, []string{"first", "second", "third"}[cached]); err != nil {
				return err
			}
			began <- cached
			<-ctx.Done()
			return ctx.Err()
		})
	})
	for term := range 3 {
		if term > 0 {
			w.election.Depose()
		}
		if cached := receive(t, began, "a term"); cached != term {
			t.Fatalf("term %d begins with %d config maps in its cache", term, cached)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.fences, " "); got != "painter/1 painter/2 painter/3" {
		t.Errorf("fences %q", got)
	}
}

// TestTermsEndWithWhatIsDone: what lead returns by itself ends them.
func TestTermsEndWithWhatIsDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run(t, w.role.Informers.Run)
	broken := errors.New("broken")
	ended := run(t, func(ctx context.Context) error {
		return w.role.Terms(ctx, func(context.Context) error { return broken })
	})
	if err := receive(t, ended, "the end"); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}

// TestOnce: whatever ends the leadership ends the parts with it, and no other begins.
func TestOnce(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := []struct {
		name string
		lead func(w *world, ctx context.Context) error
	}{
		{"lost", func(w *world, ctx context.Context) error {
			w.election.Depose()
			<-ctx.Done()
			return ctx.Err()
		}},
		{"given up", func(*world, context.Context) error { return broken }},
		{"done", func(*world, context.Context) error { return nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			partEnded := make(chan struct{})
			part := func(ctx context.Context) error {
				defer close(partEnded)
				<-ctx.Done()
				return ctx.Err()
			}
			ended := run(t, func(ctx context.Context) error {
				return w.role.Once(ctx, func(ctx context.Context) error { return tt.lead(w, ctx) }, w.role.Informers.Run, part)
			})
			if err := receive(t, ended, "the end"); err != nil {
				t.Errorf("the end of a leadership is no error, got %v", err)
			}
			select {
			case <-partEnded:
			default:
				t.Error("a part outlives the leadership")
			}
			if epoch := w.election.Epoch(); epoch != 1 {
				t.Errorf("%d terms", epoch)
			}
		})
	}
}

// TestOnceFailsWithAPart: the end of a part, which is no end of a leadership, is told.
func TestOnceFailsWithAPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := errors.New("broken")
	ended := run(t, func(ctx context.Context) error {
		return w.role.Once(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, w.role.Informers.Run,
			func(context.Context) error { return broken })
	})
	if err := receive(t, ended, "the end"); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}

// TestReadyComesFirst: nobody leads before what has to be there is.
func TestReadyComesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run(t, w.role.Informers.Run)
	ready, led := make(chan struct{}), make(chan struct{})
	w.role.Ready = func(ctx context.Context) bool {
		if w.election.Epoch() != 0 {
			t.Error("it leads before it is ready")
		}
		select {
		case <-ready:
			return true
		case <-ctx.Done():
			return false
		}
	}
	run(t, func(ctx context.Context) error {
		return w.role.Terms(ctx, func(ctx context.Context) error {
			close(led)
			<-ctx.Done()
			return ctx.Err()
		})
	})
	select {
	case <-led:
		t.Fatal("it leads before it is ready")
	default:
	}
	close(ready)
	receive(t, led, "the term")
}

// TestCachesThatStayBehindEndTheTerm: a leader whose caches do not get there in time leads no longer.
func TestCachesThatStayBehindEndTheTerm(t *testing.T) {
	t.Parallel()
	api := objecttest.New()
	client := api.Serve(t)
	informers := object.NewInformers(client)
	object.InformerFor(informers, object.ConfigMap, object.Option{})
	ctx, stop := context.WithCancel(t.Context())
	followed := run(t, func(context.Context) error { return informers.Run(ctx) })
	if !informers.Wait(t.Context()) {
		t.Fatal("the caches do not fill")
	}
	stop() // from now on they stay as they are
	<-followed
	role := leading.Role{Name: "painter", Leadership: leadingtest.New(), Objects: client, Informers: informers, Clock: clock.RealClock{}, Patience: 50 * time.Millisecond}
	if _, err := object.For(client, object.ConfigMap).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}}); err != nil {
		t.Fatal(err)
	}
	ended := run(t, func(ctx context.Context) error {
		return role.Terms(ctx, func(context.Context) error {
			t.Error("it leads without what was written before")
			return nil
		})
	})
	if err := receive(t, ended, "the end"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}
