package object_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

// caughtUp says over a channel when a set has caught up.
func caughtUp(t *testing.T, set *object.Informers) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- set.CatchUp(t.Context()) }()
	return done
}

// stays fails if the set has caught up though it cannot have.
func stays(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("it has caught up too early (%v)", err)
	case <-time.After(100 * time.Millisecond): // nothing tells that nothing comes
	}
}

func TestOneThatDoesNotRunDoesNotCatchUp(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	set := object.NewInformers(client)
	object.InformerFor(set, object.ConfigMap)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := set.CatchUp(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestCatchUpJudgesByTheCache: the reflector has an object when its event arrives, the cache has it when the queue between them is
// worked off, which an indexer that hangs delays here.
func TestCatchUpJudgesByTheCache(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	maps := object.For(client, object.ConfigMap)
	arrived, indexed := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(indexed) })
	late := cache.Indexers{"late": func(obj any) ([]string, error) {
		if obj.(*corev1.ConfigMap).Data["value"] == "2" {
			close(arrived)
			<-indexed
		}
		return nil, nil
	}}
	if _, err := maps.Create(t.Context(), configMap("a", "one", "1")); err != nil {
		t.Fatal(err)
	}
	set := object.NewInformers(client)
	informer := object.InformerFor(set, object.ConfigMap, object.Option{Indexers: late})
	follow(t, set)
	t.Cleanup(release)
	if _, err := maps.Update(t.Context(), configMap("a", "one", "2")); err != nil {
		t.Fatal(err)
	}
	<-arrived
	done := caughtUp(t, set)
	stays(t, done)
	release()
	if err := await(t, "the cache", done); err != nil {
		t.Fatal(err)
	}
	if one, ok := informer.Get("a", "one"); !ok || one.Data["value"] != "2" {
		t.Errorf("it has caught up with %v", one)
	}
}

// TestCatchUpWaitsForEveryKind: for what was made, changed and deleted of any kind of the set.
func TestCatchUpWaitsForEveryKind(t *testing.T) {
	t.Parallel()
	api, client := objecttest.Start(t)
	maps := object.For(client, object.ConfigMap)
	writes := map[string]func() error{
		"made": func() error {
			_, err := maps.Create(t.Context(), configMap("a", "new", "1"))
			return err
		},
		"changed": func() error {
			_, err := maps.Update(t.Context(), configMap("a", "changed", "2"))
			return err
		},
		"deleted": func() error { return maps.Delete(t.Context(), "a", "gone", metav1.DeleteOptions{}) },
	}
	for _, name := range []string{"changed", "gone"} {
		if _, err := maps.Create(t.Context(), configMap("a", name, "1")); err != nil {
			t.Fatal(err)
		}
	}
	for what, write := range writes {
		t.Run(what, func(t *testing.T) {
			late, client := api.ServeLate(t)
			set := object.NewInformers(client)
			object.InformerFor(set, object.Secret)
			informer := object.InformerFor(set, object.ConfigMap)
			follow(t, set)
			release := late.Hold("configmaps")
			t.Cleanup(release)
			if err := write(); err != nil {
				t.Fatal(err)
			}
			done := caughtUp(t, set)
			stays(t, done)
			release()
			if err := await(t, "the cache", done); err != nil {
				t.Fatal(err)
			}
			_, made := informer.Get("a", "new")
			_, there := informer.Get("a", "gone")
			changed, _ := informer.Get("a", "changed")
			if what == "made" && !made || what == "deleted" && there || what == "changed" && changed.Data["value"] != "2" {
				t.Errorf("the cache is behind: made %t, there %t, changed %v", made, there, changed.Data)
			}
		})
	}
}
