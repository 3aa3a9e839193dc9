package object_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

// recorded returns a handler that says what it was told, as "old>new".
func recorded() (func(old, new *corev1.ConfigMap), <-chan string) {
	changes := make(chan string, 1000)
	say := func(m *corev1.ConfigMap) string {
		if m == nil {
			return "-"
		}
		return m.Name + "=" + m.Data["value"]
	}
	return func(old, new *corev1.ConfigMap) { changes <- say(old) + ">" + say(new) }, changes
}

func TestInformerTellsOldAndNew(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	maps := object.For(client, object.ConfigMap)
	if _, err := maps.Create(t.Context(), configMap("a", "one", "1")); err != nil {
		t.Fatal(err)
	}
	set := object.NewInformers(client)
	informer := object.InformerFor(set, object.ConfigMap)
	handler, changes := recorded()
	informer.AddHandler(handler)
	if informer.HasSynced() {
		t.Error("synced before Run")
	}
	follow(t, set)

	if _, err := maps.Patch(t.Context(), "a", "one", types.MergePatchType, []byte(`{"data":{"value":"2"}}`), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(t.Context(), configMap("b", "two", "1")); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "a", "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"->one=1", "one=1>one=2", "->two=1", "one=2>-"} {
		if got := await(t, want, changes); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	if _, ok := informer.Get("a", "one"); ok {
		t.Error("the deleted object is still cached")
	}
	if m, ok := informer.GetKey("b/two"); !ok || m.Data["value"] != "1" {
		t.Errorf("b/two: %v, %t", m, ok)
	}
	if all, b, c := len(informer.List("")), len(informer.List("b")), len(informer.List("c")); all != 1 || b != 1 || c != 0 {
		t.Errorf("List: %d in all, %d in b, %d in c", all, b, c)
	}
}

func TestInformersOfNothingRunUntilTheirContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- object.NewInformers(nil).Run(ctx) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("ended with %v before its context did", err)
		default:
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestInformersAreShared(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	pods := object.For(client, object.Pod)
	for i := range 4 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("p", i), Annotations: map[string]string{"big": "x"}}}
		p.Spec.NodeName = fmt.Sprint("node", i%2)
		if _, err := pods.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	byNode := cache.Indexers{"node": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }}
	slim := func(obj object.Object) { obj.SetAnnotations(nil) }

	set := object.NewInformers(client)
	one := object.InformerFor(set, object.Pod, object.Option{Slim: slim})
	same := object.InformerFor(set, object.Pod, object.Option{Indexers: byNode})
	narrow := object.InformerFor(set, object.Pod, object.Option{FieldSelector: "spec.nodeName=node1"})
	meta := object.InformerFor(set, object.Metadata(object.Pod.GVK, "pods", true))
	if one != same || one == narrow {
		t.Fatal("the same selection must share an informer, and another must not")
	}
	follow(t, set)
	if got := same.ByIndex("node", "node1"); len(got) != 2 {
		t.Errorf("by index: %d pods, want 2", len(got))
	}
	if got := narrow.List(""); len(got) != 2 {
		t.Errorf("by field: %d pods, want 2", len(got))
	}
	if p, ok := meta.Get("a", "p0"); !ok || p.UID == "" {
		t.Errorf("metadata: %v, %t", p, ok)
	}
	if p, _ := one.Get("a", "p0"); p == nil || p.Annotations != nil {
		t.Errorf("%v is cached as it came", p)
	}
	defer func() {
		if recover() == nil {
			t.Error("an informer that is asked for too late must not go unnoticed")
		}
	}()
	object.InformerFor(set, object.Service)
}

func TestInformerContinuesTheTraceOfAChange(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	maps := object.For(client, object.ConfigMap)
	if _, err := maps.Create(t.Context(), configMap("a", "listed", "")); err != nil {
		t.Fatal(err)
	}
	set := object.NewInformers(client)
	informer := object.InformerFor(set, object.ConfigMap)
	changes := make(chan *corev1.ConfigMap, 100)
	informer.AddHandler(func(_, m *corev1.ConfigMap) { changes <- m })
	follow(t, set)

	if sc := informer.Trace(await(t, "the listed object", changes)); sc.IsValid() {
		t.Errorf("an object that was listed has no trace, got %v", sc)
	}
	ctx, want := traced(t)
	if _, err := maps.Create(ctx, configMap("a", "one", "1")); err != nil {
		t.Fatal(err)
	}
	made := await(t, "the traced object", changes)
	if sc := informer.Trace(made); sc.TraceID() != want || !sc.IsRemote() || !sc.IsSampled() {
		t.Errorf("the watch event's trace is %v, want %v", sc.TraceID(), want)
	}

	if _, err := maps.Patch(t.Context(), "a", "one", types.MergePatchType, []byte(`{"data":{"value":"2"}}`), ""); err != nil {
		t.Fatal(err)
	}
	changed := await(t, "the change", changes)
	if sc := informer.Trace(changed); sc.TraceID() == want {
		t.Error("a later change bears the trace of the first")
	}
	if sc := informer.Trace(made); sc.TraceID() != want {
		t.Error("the older version lost its trace")
	}

	// A batch belongs to one trace, and each of its items may to another.
	item, itemTrace := traced(t)
	results, err := client.Batch(ctx, []object.Item{maps.CreateItem(configMap("a", "two", "")).Traced(item), maps.CreateItem(configMap("a", "three", ""))}, false)
	if err != nil || results[0].Err != nil || results[1].Err != nil {
		t.Fatal(results, err)
	}
	for range 2 {
		m := await(t, "a batch's object", changes)
		wanted := map[string]any{"two": itemTrace, "three": want}[m.Name]
		if sc := informer.Trace(m); sc.TraceID() != wanted {
			t.Errorf("%s bears the trace %v, want %v", m.Name, sc.TraceID(), wanted)
		}
	}
}

func TestInformerResumesAStreamThatBreaks(t *testing.T) {
	t.Parallel()
	api, client := startFaulty(t)
	maps := object.For(client, object.ConfigMap)
	// At revision 0, which no real cluster has, client-go trusts no event's revision.
	if _, err := maps.Create(t.Context(), configMap("a", "first", "")); err != nil {
		t.Fatal(err)
	}
	set := object.NewInformers(client)
	handler, changes := recorded()
	object.InformerFor(set, object.ConfigMap).AddHandler(handler)
	follow(t, set)
	await(t, "the first watch", api.from)
	await(t, "the first picture", changes)
	lost := status.Error(codes.Unavailable, "error reading from server: EOF")
	for i, how := range []error{nil, nil, lost, lost} {
		name := fmt.Sprint("m", i)
		made, err := maps.Create(t.Context(), configMap("a", name, ""))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := await(t, name, changes), "->"+name+"="; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		away := i%2 == 1 // for one try
		if away {
			api.refuse <- apierrors.NewServiceUnavailable("restarting")
		}
		select {
		case api.cut <- how:
		case <-time.After(time.Minute):
			t.Fatal("no watch stands")
		}
		tries := 1
		if away {
			tries = 2
		}
		for range tries {
			if from := await(t, "the next watch", api.from); from != made.ResourceVersion {
				t.Errorf("the watch resumes at %s, want %s", from, made.ResourceVersion)
			}
		}
	}
	if n := api.lists.Load(); n != 1 {
		t.Errorf("%d lists: a broken stream must be resumed, not listed anew", n)
	}
	if len(changes) != 0 {
		t.Errorf("the handler was told twice: %s", <-changes)
	}
}

func TestInformerListsAnewWhenItsRevisionHasExpired(t *testing.T) {
	t.Parallel()
	api, client := startFaulty(t)
	maps := object.For(client, object.ConfigMap)
	for _, name := range []string{"stays", "goes"} {
		if _, err := maps.Create(t.Context(), configMap("a", name, "1")); err != nil {
			t.Fatal(err)
		}
	}
	set := object.NewInformers(client)
	informer := object.InformerFor(set, object.ConfigMap)
	handler, changes := recorded()
	informer.AddHandler(handler)
	follow(t, set)
	await(t, "the first watch", api.from)
	for range 2 {
		await(t, "the first picture", changes)
	}
	gone := apierrors.NewResourceExpired("too old resource version")
	api.refuse <- gone
	api.refuse <- gone // of the stream that is opened in between
	api.cut <- nil
	if err := maps.Delete(t.Context(), "a", "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Create(t.Context(), configMap("a", "comes", "1")); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for !got["goes=1>-"] || !got["->comes=1"] {
		got[await(t, "both changes", changes)] = true
	}
	if n := api.lists.Load(); n < 2 {
		t.Errorf("%d lists, want another after the 410", n)
	}
	if _, ok := informer.Get("a", "goes"); ok {
		t.Error("what was deleted in the gap is still cached")
	}
}
