package objects

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// Purge begins the deletion of all objects of a kind, in the server's own name and whatever admission says of it: what the
// deletion of a kind's definition promised must not hang on a webhook.
func (s *Server) Purge(ctx context.Context, kind *registry.Kind) error {
	if err := s.Cache.Fresh(ctx); err != nil {
		return storeError(err, kind.GroupResource(), "", "list")
	}
	page := s.Cache.For(kind).List(cache.Query{})
	res := &registry.Resource{Kind: kind, GVK: kind.GVK, GVR: kind.GVK.GroupVersion().WithResource(kind.Resource), ListKind: kind.ListKind}
	user := &authn.User{Name: "system:apiserver", Groups: []string{authn.MastersGroup}}
	var mu sync.Mutex
	var failed error
	each(len(page.Items), collectionWorkers, func(i int) {
		r := &request{verb: "delete", user: user, res: res, namespace: page.Items[i].Namespace, name: page.Items[i].Name}
		d := &deletion{s: s, r: r, form: codec.Form{Media: codec.JSON}, options: &metav1.DeleteOptions{}, unchecked: true}
		if _, err := s.execute(ctx, d, false); err != nil && !errors.IsNotFound(err) {
			mu.Lock()
			defer mu.Unlock()
			failed = err
		}
	})
	return failed
}
