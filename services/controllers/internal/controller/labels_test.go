package controller_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestSelected holds what the index finds against a look at each pod, while pods come, go and get other labels.
func TestSelected(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	env := &controller.Env{Client: client, Informers: object.NewInformers(client)}
	cache := env.Pods()
	(&controllertest.Cluster{T: t}).Go(env.Informers.Run)
	if !env.Informers.Wait(t.Context()) {
		t.Fatal("no pods")
	}
	pods := object.For(client, object.Pod)
	random := rand.New(rand.NewPCG(1, 2))
	some := func(most int) map[string]string {
		set := map[string]string{}
		for range random.IntN(most + 1) {
			set[fmt.Sprint("example.com/", random.IntN(3))] = []string{"", "a", "b"}[random.IntN(3)]
		}
		return set
	}
	for round := range 30 {
		for range 10 {
			namespace, name := []string{"a", "a-b"}[random.IntN(2)], fmt.Sprint("p", random.IntN(20))
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: some(4)}}
			was, err := pods.Get(t.Context(), namespace, name)
			switch {
			case err != nil:
				_, err = pods.Create(t.Context(), p)
			case random.IntN(4) == 0:
				err = pods.Delete(t.Context(), namespace, name, metav1.DeleteOptions{})
			default:
				was.Labels = p.Labels
				_, err = pods.Update(t.Context(), was)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := cache.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			namespace, selector := []string{"a", "a-b", "b"}[random.IntN(3)], some(3)
			var want []string
			for _, p := range cache.List(namespace) {
				if labels.SelectorFromValidatedSet(selector).Matches(labels.Set(p.Labels)) {
					want = append(want, p.Name)
				}
			}
			var got []string
			for _, p := range controller.Selected(cache, namespace, selector) {
				got = append(got, p.Name)
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("round %d: %s of %s: %v, want %v", round, selector, namespace, got, want)
			}
		}
	}
}
