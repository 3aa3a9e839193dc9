package apiserver

import (
	"context"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/store"
)

// between is a store in which something happens right before a pod is removed, once.
type between struct {
	memory
	happens atomic.Pointer[func() error]
}

func (b *between) Write(ctx context.Context, w store.Write) store.Result {
	if w.Op == store.Delete && strings.HasPrefix(w.Key, "/core/pods/") {
		if happens := b.happens.Swap(nil); happens != nil {
			if err := (*happens)(); err != nil {
				return store.Result{Err: err}
			}
		}
	}
	return b.memory.Write(ctx, w)
}

// A pod that goes at once is told of as being deleted before it is gone, in one write: nothing comes between the two, and where
// something comes before them, they are about what it left.
func TestDeletionsAreTold(t *testing.T) {
	const pod = `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	remove := func(f *fixture) error {
		_, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "a"})
		return err
	}
	for name, c := range map[string]struct {
		remove  func(f *fixture) error
		happens func(f *fixture) error
		refused func(error) bool
		then    func(f *fixture) error // ends what was left
		want    string
	}{
		"nothing": {remove, nil, nil, nil, "ADDED MODIFIED DELETED"},
		"in a transaction": {func(f *fixture) error {
			answer, err := f.api.Batch(f.ctx, &apiv1.BatchRequest{Atomic: true, Items: []*apiv1.BatchItem{
				{Write: &apiv1.BatchItem_Delete{Delete: &apiv1.DeleteRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "a"}}},
				{Write: &apiv1.BatchItem_Create{Create: &apiv1.CreateRequest{Version: "v1", Resource: "configmaps", Namespace: "default",
					Object: []byte(`{"metadata":{"name":"a"}}`), ContentType: "application/json"}}},
			}})
			if err == nil && answer.GetResults()[1].GetCode() != 201 {
				t.Errorf("%v", answer)
			}
			return err
		}, nil, nil, nil, "ADDED MODIFIED DELETED"},
		"with its collection": {func(f *fixture) error {
			_, err := f.api.DeleteCollection(f.ctx, &apiv1.DeleteCollectionRequest{Version: "v1", Resource: "pods", Namespace: "default"})
			return err
		}, nil, nil, nil, "ADDED MODIFIED DELETED"},
		"a label changes": {remove, func(f *fixture) error {
			_, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "a",
				ContentType: "application/merge-patch+json", Object: []byte(`{"metadata":{"labels":{"b":"c"}}}`)})
			return err
		}, nil, nil, "ADDED MODIFIED MODIFIED DELETED"},
		"another deletes it": {remove, remove, apierrors.IsNotFound, nil, "ADDED MODIFIED DELETED"},
		"another puts a new one in its place": {remove, func(f *fixture) error {
			if err := remove(f); err != nil {
				return err
			}
			_, err := f.create("v1/pods", "default", pod)
			return err
		}, nil, nil, "ADDED MODIFIED DELETED ADDED MODIFIED DELETED"},
		"the database goes": {remove, func(*fixture) error { return store.ErrUnavailable }, apierrors.IsServiceUnavailable, remove, "ADDED MODIFIED DELETED"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &between{memory: memory{memstore.New()}}
			f := start(t, b)
			f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
			w := f.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "pods", Namespace: "default"})
			f.must(f.create("v1/pods", "default", pod))
			if c.happens != nil {
				happens := func() error { return c.happens(f) }
				b.happens.Store(&happens)
			}
			if err := c.remove(f); (err != nil) != (c.refused != nil) || err != nil && !c.refused(apistatus.FromGRPC(err)) {
				t.Fatalf("refused: %v", err)
			}
			if c.then != nil {
				if err := c.then(f); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			var last *unstructured.Unstructured
			for range strings.Fields(c.want) {
				e, obj := w.next(), &unstructured.Unstructured{}
				if err := obj.UnmarshalJSON(e.GetObject()); err != nil {
					t.Fatal(err)
				}
				if e.GetType() == "DELETED" {
					sameButLater(t, last, obj)
				}
				got, last = append(got, e.GetType()), obj
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

// sameButLater checks that what is gone is what was told of last, at the next revision.
func sameButLater(t *testing.T, last, gone *unstructured.Unstructured) {
	t.Helper()
	if grace := last.GetDeletionGracePeriodSeconds(); last.GetDeletionTimestamp() == nil || grace == nil || *grace != 0 {
		t.Errorf("it is not said to be going: %v", last.Object)
	}
	was, err := strconv.ParseInt(last.GetResourceVersion(), 10, 64)
	if err != nil || gone.GetResourceVersion() != strconv.FormatInt(was+1, 10) {
		t.Errorf("it is gone at %s, and was going at %s", gone.GetResourceVersion(), last.GetResourceVersion())
	}
	gone.SetResourceVersion(last.GetResourceVersion())
	if !reflect.DeepEqual(last.Object, gone.Object) {
		t.Errorf("it is gone as %v, and was %v", gone.Object, last.Object)
	}
}
