package apiserver

import (
	"fmt"
	"sync"
	"testing"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// TestCollidingWritesLand patches an object a hundred times at once, through two API servers: every one of them lands.
func TestCollidingWritesLand(t *testing.T) {
	t.Parallel()
	f := startPostgres(t)
	other := start(t, nil, func(c *Config) { c.DatabaseURL = f.server.cfg.DatabaseURL })
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"a"}}`))
	const patches = 100
	var running sync.WaitGroup
	for n := range patches {
		running.Go(func() {
			by := []*fixture{f, other}[n%2]
			_, err := by.api.Patch(by.ctx, &apiv1.PatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "a",
				ContentType: "application/merge-patch+json", Object: fmt.Appendf(nil, `{"data":{"k%d":"v"}}`, n)})
			if err != nil {
				t.Errorf("patch %d: %v", n, apistatus.FromGRPC(err))
			}
		})
	}
	running.Wait()
	if data := at(f.must(f.get("v1/configmaps", "default", "a")), "data").(map[string]any); len(data) != patches {
		t.Errorf("%d of %d patches are in the object", len(data), patches)
	}
}
