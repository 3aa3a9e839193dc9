package stream

import (
	"errors"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/rpc"
	"howdah.dev/nodeagent/internal/fakecri"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
)

func TestNodeProxy(t *testing.T) {
	t.Parallel()
	s := New(Config{
		Runtime: fakecri.New(), Clock: clock.RealClock{}, Pod: func(string, string) (*corev1.Pod, bool) { return nil, false },
		Node: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, r.Method+" "+r.URL.RequestURI())
		}),
	})
	wire := rpc.ListenInMemory()
	server := rpc.NewServer(nil, nil)
	nodev1.RegisterNodeServiceServer(server, s)
	go func() { _ = server.Server.Serve(wire) }()
	defer server.Stop()
	conn, err := wire.Dial(rpc.User{Name: "apiserver", Groups: []string{Callers}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := nodev1.NewNodeServiceClient(conn).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&nodev1.ConnectRequest{Message: &nodev1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{
		Version: "v1", Resource: "nodes", Name: "n", Subresource: "proxy", Method: "GET", Path: "/pods", Query: "a=b"}}}); err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || first.GetAccepted().GetCode() != http.StatusTeapot || first.GetAccepted().GetHeaders()[0].GetValue() != "text/plain" {
		t.Fatalf("%v, %v", first, err)
	}
	var got string
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got += string(m.GetFrame().GetData())
	}
	if got != "GET /pods?a=b" {
		t.Errorf("got %q", got)
	}
}
