package object_test

import (
	"testing"

	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
)

func TestInformersRest(t *testing.T) {
	t.Parallel()
	api, client := startFaulty(t)
	maps := object.For(client, object.ConfigMap)
	set := object.NewInformers(client)
	informer := object.InformerFor(set, object.ConfigMap)
	handler, changes := recorded()
	informer.AddHandler(handler)
	follow(t, set)
	expect := func(gather int64, from string) {
		t.Helper()
		if got := await(t, "a watch", api.gather); got != gather {
			t.Errorf("the watch gathers changes for %d ms, want %d", got, gather)
		}
		if got := await(t, "a watch", api.from); from != "" && got != from {
			t.Errorf("the watch goes on at %s, want %s", got, from)
		}
	}
	create := func(name string) (revision string) {
		t.Helper()
		made, err := maps.Create(t.Context(), configMap("a", name, ""))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := await(t, name, changes), "->"+name+"="; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		return made.ResourceVersion
	}
	expect(0, "")
	last := create("before")
	set.Rest()
	set.Rest()
	expect(1000, last)
	last = create("meanwhile")
	if err := set.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(0, last)
	expect(1000, last)
	if err := set.TakeOver(t.Context(), clock.RealClock{}); err != nil {
		t.Fatal(err)
	}
	expect(0, last)
	if err := set.Refresh(t.Context()); err != nil { // which does not put those to rest that are awake
		t.Fatal(err)
	}
	create("after")
	set.Rest()
	set.Wake() // before it has begun
	create("at once")
	if n := api.lists.Load(); n != 4 {
		t.Errorf("%d lists, want one and three to catch up", n)
	}
	if n := api.watches.Load(); n != 5 {
		t.Errorf("%d watches, want 5", n)
	}
	if len(changes) != 0 {
		t.Errorf("the handler was told twice: %s", <-changes)
	}
}
