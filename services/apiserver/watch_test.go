package apiserver

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/memstore"
)

func (f *fixture) patch(resource, name, body string) {
	f.t.Helper()
	g, v, r := split(resource)
	_, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{Group: g, Version: v, Resource: r, Namespace: "default", Name: name,
		ContentType: "application/merge-patch+json", Object: []byte(body)})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) delete(resource, name string) {
	f.t.Helper()
	g, v, r := split(resource)
	if _, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Group: g, Version: v, Resource: r, Namespace: "default", Name: name}); err != nil {
		f.t.Fatal(err)
	}
}

func nameOf(t testing.TB, e *apiv1.WatchEvent) string {
	var m struct {
		Metadata struct{ Name, ResourceVersion string }
	}
	if err := json.Unmarshal(e.GetObject(), &m); err != nil {
		t.Fatal(err)
	}
	if e.GetType() != "ERROR" && m.Metadata.ResourceVersion != strconv.FormatInt(e.GetRevision(), 10) {
		t.Errorf("%s of %s: the object is at %s, the event at %d", e.GetType(), m.Metadata.Name, m.Metadata.ResourceVersion, e.GetRevision())
	}
	return m.Metadata.Name
}

func TestSelectorTransitions(t *testing.T) {
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	by := map[string]*watching{
		"label": f.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "pods", LabelSelector: "in=yes"}),
		"node":  f.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "pods", FieldSelector: "spec.nodeName=n1"}),
		"none":  f.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "pods", FieldSelector: "spec.nodeName="}),
		"name":  f.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "pods", Namespace: "default", FieldSelector: "metadata.name=a"}),
		"other": f.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "pods", Namespace: "kube-system"}),
	}
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
	f.patch("v1/pods", "a", `{"metadata":{"labels":{"in":"yes"}}}`)
	if _, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "a", Subresource: "binding",
		Object: []byte(`{"metadata":{"name":"a"},"target":{"kind":"Node","name":"n1"}}`)}); err != nil {
		t.Fatal(err)
	}
	f.patch("v1/pods", "a", `{"metadata":{"labels":{"in":null}}}`)
	zero := "0"
	if _, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "a", GracePeriodSeconds: zero}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"label": "ADDED MODIFIED DELETED",
		"node":  "ADDED MODIFIED MODIFIED DELETED",
		"none":  "ADDED MODIFIED DELETED",
		"name":  "ADDED MODIFIED MODIFIED MODIFIED MODIFIED DELETED",
	} {
		var got []string
		for range strings.Fields(want) {
			e := by[name].next()
			nameOf(t, e)
			got = append(got, e.GetType())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, wanted %s", name, got, want)
		}
	}
	if n := len(by["other"].events); n != 0 {
		t.Errorf("a watch of another namespace got %d events", n)
	}
}

func TestInitialEventsAndBookmark(t *testing.T) {
	f := startMemory(t)
	for i := range 3 {
		f.must(f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, i)))
	}
	w := f.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default", SendInitialEvents: "true", ResourceVersionMatch: "NotOlderThan", AllowWatchBookmarks: true})
	for i := range 3 {
		if e := w.next(); e.GetType() != "ADDED" || nameOf(t, e) != fmt.Sprintf("c%d", i) {
			t.Fatalf("%s %s", e.GetType(), e.GetObject())
		}
	}
	e := w.next()
	if e.GetType() != "BOOKMARK" || !strings.Contains(string(e.GetObject()), `"k8s.io/initial-events-end":"true"`) || !strings.Contains(string(e.GetObject()), `"kind":"ConfigMap"`) {
		t.Fatalf("%s %s", e.GetType(), e.GetObject())
	}
	resumed := f.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default", ResourceVersion: strconv.FormatInt(e.GetRevision(), 10)})
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"later"}}`))
	for _, w := range []*watching{w, resumed} {
		if e := w.next(); e.GetType() != "ADDED" || nameOf(t, e) != "later" {
			t.Errorf("%s %s", e.GetType(), e.GetObject())
		}
	}
}

// TestWatchFromThePast goes on at another apiserver, and at one that has only begun, from any revision that the log knows.
func TestWatchFromThePast(t *testing.T) {
	st := memstore.New()
	f := start(t, memory{st})
	w := f.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "namespaces", ResourceVersion: "1"})
	var told []string
	for range 3 { // bootstrap's namespaces after the first
		e := w.next()
		if e.GetType() != "ADDED" {
			t.Fatalf("%s", e.GetObject())
		}
		told = append(told, nameOf(t, e))
	}
	other := start(t, memory{st})
	w = other.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "namespaces", ResourceVersion: "1"})
	f.must(f.create("v1/namespaces", "", `{"metadata":{"name":"later"}}`))
	for _, name := range append(told, "later") {
		if e := w.next(); e.GetType() != "ADDED" || nameOf(t, e) != name {
			t.Errorf("%s %s, wanted %s", e.GetType(), e.GetObject(), name)
		}
	}
	newest, err := st.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	st.Compact(newest)
	other = start(t, memory{st})
	if _, err := other.list(&apiv1.ListRequest{Version: "v1", Resource: "namespaces", ResourceVersion: "1", ResourceVersionMatch: "Exact"}); status(err).Code != 410 ||
		status(err).Message != "The resourceVersion for the provided list is too old." {
		t.Errorf("a list of the compacted past: %v", err)
	}
	w = other.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "namespaces", ResourceVersion: "1"})
	if e, want := w.next(), fmt.Sprintf("too old resource version: 1 (%d)", newest); e.GetType() != "ERROR" ||
		!strings.Contains(string(e.GetObject()), `"code":410`) || !strings.Contains(string(e.GetObject()), want) {
		t.Errorf("%s %s, wanted %s", e.GetType(), e.GetObject(), want)
	}
	select {
	case err := <-w.ended:
		if err.Error() != "EOF" {
			t.Errorf("the watch ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the watch goes on after its ERROR")
	}
}

// TestWatchOracle writes from many clients at two apiservers and checks that watchers, some of which reconnect
// all the time, see every revision once and in order, and end up with the state that a list shows.
func TestWatchOracle(t *testing.T) {
	f := startPostgres(t)
	other := serve(t, mustBuild(t, f.server.cfg))
	const writers, each = 8, 60
	servers := []*fixture{f, other}

	start := f.must(f.list(&apiv1.ListRequest{Version: "v1", Resource: "configmaps", Namespace: "default"}))
	revision, _ := strconv.ParseInt(at(start, "metadata", "resourceVersion").(string), 10, 64)

	var writing sync.WaitGroup
	for n := range writers {
		writing.Go(func() {
			server := servers[n%2]
			for i := range each {
				name := fmt.Sprintf("w%d-%d", n, i%5)
				body := fmt.Sprintf(`{"metadata":{"name":%q},"data":{"i":"%d"}}`, name, i)
				if _, err := server.create("v1/configmaps", "default", body); err == nil {
					continue
				}
				if rand.IntN(3) == 0 {
					server.delete("v1/configmaps", name)
				} else {
					server.patch("v1/configmaps", name, fmt.Sprintf(`{"data":{"i":"%d"}}`, i))
				}
			}
		})
	}
	finished := make(chan struct{})
	go func() { writing.Wait(); close(finished) }()

	type seen struct {
		state map[string]int64
		log   []string
	}
	follow := func(reconnect bool) seen {
		out := seen{state: map[string]int64{}}
		last, n := revision, 0
		for {
			server := servers[n%2]
			n++
			w := server.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default", ResourceVersion: strconv.FormatInt(last, 10)})
			for k := 0; !reconnect || k < 7; k++ {
				var e *apiv1.WatchEvent
				select {
				case e = <-w.events:
				case <-finished:
					select {
					case e = <-w.events:
					case <-time.After(500 * time.Millisecond):
						w.cancel()
						return out
					}
				}
				name := nameOf(t, e)
				if e.GetRevision() <= last {
					t.Errorf("revision %d after %d", e.GetRevision(), last)
				}
				last = e.GetRevision()
				_, there := out.state[name]
				if there == (e.GetType() == "ADDED") {
					t.Errorf("%s of %s, which was there: %v", e.GetType(), name, there)
				}
				if e.GetType() == "DELETED" {
					delete(out.state, name)
				} else {
					out.state[name] = last
				}
				out.log = append(out.log, fmt.Sprint(e.GetType(), name, last))
			}
			w.cancel()
		}
	}
	results := make([]seen, 4)
	var following sync.WaitGroup
	for i := range results {
		following.Go(func() { results[i] = follow(i%2 == 1) })
	}
	following.Wait()
	final := f.must(f.list(&apiv1.ListRequest{Version: "v1", Resource: "configmaps", Namespace: "default"}))
	want := map[string]int64{}
	for _, i := range final["items"].([]any) {
		want[at(i, "metadata", "name").(string)], _ = strconv.ParseInt(at(i, "metadata", "resourceVersion").(string), 10, 64)
	}
	for i, r := range results {
		if fmt.Sprint(r.state) != fmt.Sprint(want) {
			t.Errorf("watcher %d ends with %v, the list says %v", i, r.state, want)
		}
		if strings.Join(r.log, " ") != strings.Join(results[0].log, " ") {
			t.Errorf("watcher %d saw another history than the first", i)
		}
	}
}

func mustBuild(t testing.TB, cfg Config) *Server {
	t.Helper()
	server, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func TestWatchInNoHurry(t *testing.T) {
	f := startMemory(t)
	create := func(name string) {
		t.Helper()
		f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"`+name+`","labels":{"app":"a"}}}`))
	}
	maps := &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default", LabelSelector: "app=a", GatherMilliseconds: 3000}
	create("stays")
	create("leaves")
	w := f.open(t, maps)
	for range 2 {
		if e := w.next(); e.GetType() != "ADDED" {
			t.Fatalf("the state begins with %s of %s", e.GetType(), nameOf(t, e))
		}
	}
	create("comes")
	create("comes-and-goes")
	f.patch("v1/configmaps", "stays", `{"metadata":{"labels":{"n":"1"}}}`)
	f.patch("v1/configmaps", "leaves", `{"metadata":{"labels":{"app":"b"}}}`)
	f.delete("v1/configmaps", "comes-and-goes")
	f.patch("v1/configmaps", "stays", `{"metadata":{"labels":{"n":"2"}}}`)
	f.patch("v1/configmaps", "comes", `{"metadata":{"labels":{"n":"1"}}}`)
	var got []string
	for range 3 {
		e := w.next()
		got = append(got, e.GetType()+" "+nameOf(t, e))
	}
	if want := []string{"DELETED leaves", "MODIFIED stays", "ADDED comes"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	maps.GatherMilliseconds = 10_001
	stream, err := f.api.Watch(f.ctx, maps)
	if err == nil {
		_, err = stream.Recv()
	}
	if err = apistatus.FromGRPC(err); !apierrors.IsBadRequest(err) {
		t.Errorf("a watch that gathers for too long: %v", err)
	}
}

func TestAtomicBatchArrivesTogether(t *testing.T) {
	f := startPostgres(t)
	ctx := f.ctx
	stream, err := f.api.Watch(ctx, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default"})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	batch := func(names ...string) *apiv1.BatchResponse {
		req := &apiv1.BatchRequest{Atomic: true}
		for _, n := range names {
			req.Items = append(req.Items, &apiv1.BatchItem{Write: &apiv1.BatchItem_Create{Create: &apiv1.CreateRequest{
				Version: "v1", Resource: "configmaps", Namespace: "default", Object: []byte(`{"metadata":{"name":"` + n + `"}}`)}}})
		}
		resp, err := f.api.Batch(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for _, r := range batch("a", "b", "c").GetResults() {
		if r.GetCode() != 201 {
			t.Fatalf("%d %s", r.GetCode(), r.GetObject())
		}
	}
	resp, err := stream.Recv()
	if err != nil || len(resp.GetEvents()) != 3 {
		t.Fatalf("the transaction arrived as %d events, %v", len(resp.GetEvents()), err)
	}
	failed := batch("d", "a", "e").GetResults()
	if failed[1].GetCode() != 409 || failed[0].GetCode() < 400 || failed[2].GetCode() < 400 {
		t.Errorf("codes %d %d %d", failed[0].GetCode(), failed[1].GetCode(), failed[2].GetCode())
	}
	if _, err := f.get("v1/configmaps", "default", "d"); status(err).Code != 404 {
		t.Error("a part of a failed atomic batch landed")
	}
}
