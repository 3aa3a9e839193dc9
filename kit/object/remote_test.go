package object_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

// widgets returns the widgets of an extension API server, and the client by which they are reached.
func widgets(t *testing.T, e *objecttest.Extension) (object.Resource[*metav1.PartialObjectMetadata], *object.Client) {
	t.Helper()
	api := objecttest.New()
	api.Extend(e)
	client := api.Serve(t)
	kind := object.Metadata(objecttest.ExtensionGroup.WithKind("Widget"), "widgets", true)
	kind.Remote = true
	return object.For(client, kind), client
}

func TestRemoteObjects(t *testing.T) {
	t.Parallel()
	e := objecttest.NewExtension()
	resource, client := widgets(t, e)
	for _, name := range []string{"a", "b", "c", "d"} {
		e.Put("widgets", metav1.ObjectMeta{Namespace: "default", Name: name})
	}
	e.Put("widgets", metav1.ObjectMeta{Namespace: "other", Name: "a"})

	a, err := resource.Get(t.Context(), "default", "a")
	if err != nil || a.Name != "a" || a.UID == "" {
		t.Fatalf("%v %+v", err, a)
	}
	if _, err := resource.Get(t.Context(), "default", "none"); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	all, list, err := resource.List(t.Context(), "", metav1.ListOptions{})
	if err != nil || len(all) != 5 || list.ResourceVersion != "5" {
		t.Fatalf("%v %d %+v", err, len(all), list)
	}
	w, err := resource.Watch(t.Context(), "default", metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()

	long := strings.Repeat("x", 100<<10) // more than a message carries
	patched, err := resource.Patch(t.Context(), "default", "a", types.MergePatchType, []byte(`{"metadata":{"annotations":{"long":"`+long+`"}}}`), "")
	if err != nil || patched.Annotations["long"] != long {
		t.Fatalf("patch: %v", err)
	}
	results, err := client.Batch(t.Context(), []object.Item{
		resource.DeleteItem("default", "b", metav1.DeleteOptions{}),
		resource.DeleteItem("default", "c", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")}),
		resource.PatchItem("default", "d", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), ""),
	}, false)
	if err != nil || results[0].Err != nil || !apierrors.IsConflict(results[1].Err) || results[2].Err != nil {
		t.Fatalf("batch: %v %+v", err, results)
	}
	seen := map[string]watch.EventType{}
	for len(seen) < 3 {
		select {
		case event := <-w.ResultChan():
			seen[event.Object.(*metav1.PartialObjectMetadata).Name] = event.Type
		case <-time.After(time.Minute):
			t.Fatalf("only %v was seen", seen)
		}
	}
	if seen["a"] != watch.Modified || seen["b"] != watch.Deleted || seen["d"] != watch.Modified {
		t.Errorf("%v", seen)
	}

	if err := resource.Delete(t.Context(), "default", "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := resource.DeleteCollection(t.Context(), "default", metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if left := e.Names("widgets"); !slices.Equal(left, []string{"a"}) {
		t.Errorf("left: %v", left)
	}
	if _, err := resource.Create(t.Context(), a); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("create of metadata: %v", err)
	}
	if _, err := client.Batch(t.Context(), []object.Item{resource.DeleteItem("default", "a", metav1.DeleteOptions{})}, true); err == nil {
		t.Error("an atomic batch took a write that is not this API's")
	}
	if err := object.For(client, object.Pod).DeleteCollection(t.Context(), "default", metav1.DeleteOptions{}, metav1.ListOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("a collection of this API: %v", err)
	}
}

// TestRemoteFaults asks servers that are broken: each answer is an error that says so, none is taken for an absent object.
func TestRemoteFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault func(w http.ResponseWriter, r *http.Request)
		want  string
	}{
		"away": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		}, "unable to handle the request"},
		"broken": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusInternalServerError) }, "oops"},
		"garbage": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "<html>")
		}, "invalid character"},
		"otherwise": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"kind":"Elephant","apiVersion":"v7"}`) }, ""},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			piece := []byte(strings.Repeat(" ", 1<<20))
			for {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := objecttest.NewExtension()
			e.Fault = func(w http.ResponseWriter, r *http.Request) bool { c.fault(w, r); return true }
			resource, _ := widgets(t, e)
			_, err := resource.Get(t.Context(), "default", "a")
			if name != "otherwise" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("get: %v", err)
			}
			if apierrors.IsNotFound(err) {
				t.Errorf("get found it absent: %v", err)
			}
			if _, _, err := resource.List(t.Context(), "default", metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("list: %v", err)
			}
		})
	}
}

// TestRemoteHangs asks a server that never answers: calls end with their deadline, and a batch does not wait once for each item.
func TestRemoteHangs(t *testing.T) {
	t.Parallel()
	e := objecttest.NewExtension()
	e.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		w.WriteHeader(http.StatusGatewayTimeout) // or it would be a success, where it arrives before the client has given up
		return true
	}
	resource, client := widgets(t, e)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var items []object.Item
	for i := range 100 {
		items = append(items, resource.DeleteItem("default", fmt.Sprint(i), metav1.DeleteOptions{}))
	}
	results, err := client.Batch(ctx, items, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Err == nil {
			t.Errorf("item %d was deleted", i)
		}
	}
}
