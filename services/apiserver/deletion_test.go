package apiserver

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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

// A deletion is told of before it is over, in two writes: whatever happens between them, nothing is lost and nobody hears of it twice.
func TestDeletionsAreTold(t *testing.T) {
	const pod = `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	for name, c := range map[string]struct {
		happens func(f *fixture) error
		refused bool
		then    func(f *fixture) // ends what was left
		want    string
	}{
		"nothing": {func(*fixture) error { return nil }, false, nil, "ADDED MODIFIED DELETED"},
		"a label changes, which ends what has begun": {func(f *fixture) error {
			_, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "a",
				ContentType: "application/merge-patch+json", Object: []byte(`{"metadata":{"labels":{"b":"c"}}}`)})
			return err
		}, false, nil, "ADDED MODIFIED DELETED"},
		"another deletes it": {func(f *fixture) error {
			_, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "a"})
			return err
		}, false, nil, "ADDED MODIFIED DELETED"},
		"another puts a new one in its place": {func(f *fixture) error {
			if _, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "a"}); err != nil {
				return err
			}
			_, err := f.create("v1/pods", "default", pod)
			return err
		}, false, nil, "ADDED MODIFIED DELETED ADDED"},
		"the database goes": {func(*fixture) error { return store.ErrUnavailable }, true, func(f *fixture) {
			if _, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "a"}); err != nil {
				f.t.Error(err)
			}
		}, "ADDED MODIFIED DELETED"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &between{memory: memory{memstore.New()}}
			f := start(t, b)
			f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
			w := f.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "pods", Namespace: "default"})
			f.must(f.create("v1/pods", "default", pod))
			happens := func() error { return c.happens(f) }
			b.happens.Store(&happens)
			_, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "a"})
			if refused := err != nil; refused != c.refused || refused && !apierrors.IsServiceUnavailable(apistatus.FromGRPC(err)) {
				t.Fatalf("refused: %v, want %t", err, c.refused)
			}
			if c.then != nil {
				c.then(f)
			}
			var got []string
			for range strings.Fields(c.want) {
				got = append(got, w.next().GetType())
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}
