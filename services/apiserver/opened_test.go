package apiserver

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/memstore"
)

// slowState is a store that, once, does something before it tells a watch how far it is.
type slowState struct {
	memory
	asked atomic.Pointer[func()]
}

func (s *slowState) Revision(ctx context.Context) (int64, error) {
	if method, _ := grpc.Method(ctx); method == apiv1.ObjectService_Watch_FullMethodName {
		if asked := s.asked.Swap(nil); asked != nil {
			(*asked)()
		}
	}
	return s.memory.Revision(ctx)
}

// A watch without a revision that has answered stands: what comes and goes right after it is told, however slow the server was to begin.
func TestAWatchStandsBeforeItAnswers(t *testing.T) {
	s := &slowState{memory: memory{memstore.New()}}
	f := start(t, s)
	answered := make(chan struct{})
	early := false
	asked := func() {
		select {
		case <-answered:
			early = true
		case <-time.After(200 * time.Millisecond): // time enough for an answer that does not wait for the state
		}
	}
	s.asked.Store(&asked)
	w := f.open(t, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default"})
	close(answered)
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"a"}}`))
	if _, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "a"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ADDED", "DELETED"} {
		if e := w.next(); e.GetType() != want {
			t.Fatalf("%s is told, want %s", e.GetType(), want)
		}
	}
	if early {
		t.Error("the watch answered before it stood")
	}
}
