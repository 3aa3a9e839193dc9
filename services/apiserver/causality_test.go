package apiserver

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/objects"
)

// What one API server has answered decides what another does for whoever says so.
func TestDecidedByWhatAnotherAPIServerWrote(t *testing.T) {
	st, held := memory{memstore.New()}, &sync.Mutex{}
	f, other := start(t, st), start(t, late{st, held})
	account := f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	written, err := strconv.ParseInt(at(account, "metadata", "resourceVersion").(string), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	other.await("what is the same for both", func() bool { return other.server.cache.Applied() >= written })

	held.Lock()
	release := sync.OnceFunc(held.Unlock)
	defer release() // before the servers stop
	var header metadata.MD
	write := func(resource, body string) []string {
		t.Helper()
		g, v, r := split(resource)
		if _, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Group: g, Version: v, Resource: r, Namespace: "default", Object: []byte(body)}, grpc.Header(&header)); err != nil {
			t.Fatal(apistatus.FromGRPC(err))
		}
		return header.Get(objects.DecisiveKey)
	}
	if told := write("v1/configmaps", `{"metadata":{"name":"a"}}`); len(told) > 0 {
		t.Errorf("a config map decides at %q", told)
	}
	told := write("v1/limitranges", `{"metadata":{"name":"a"},"spec":{"limits":[{"type":"Container","default":{"cpu":"2"}}]}}`)
	if len(told) != 1 {
		t.Fatalf("a limit decides at %q", told)
	}
	create := func(ctx context.Context, name string) (limit any, err error) {
		resp, err := other.api.Create(ctx, &apiv1.CreateRequest{Version: "v1", Resource: "pods", Namespace: "default",
			Object: []byte(`{"metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)})
		if err != nil {
			return nil, apistatus.FromGRPC(err)
		}
		pod := other.must(resp.GetObject(), nil)
		return at(pod, "spec", "containers").([]any)[0].(map[string]any)["resources"], nil
	}
	if limit, err := create(other.ctx, "before"); err != nil || len(limit.(map[string]any)) > 0 {
		t.Fatalf("an API server that cannot know of a limit applies it: %v %v", limit, err)
	}
	knowing := metadata.AppendToOutgoingContext(other.ctx, objects.KnowKey, told[0])
	if _, err := create(knowing, "refused"); status(err).Code != 503 || status(err).Details == nil || status(err).Details.RetryAfterSeconds != 1 {
		t.Errorf("an API server decides by what it does not know: %v", err)
	}
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		limit, err := create(knowing, "after")
		if err != nil || at(limit, "limits", "cpu") != "2" {
			t.Errorf("%v %v", limit, err)
		}
	}()
	release()
	<-waited
	if _, err := create(metadata.AppendToOutgoingContext(other.ctx, objects.KnowKey, "x"), "wrong"); status(err).Code != 400 {
		t.Errorf("%v", err)
	}
}
