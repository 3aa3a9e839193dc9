package stream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/rpc"
	"howdah.dev/nodeagent/internal/fakecri"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
)

func TestTunnel(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		line, _ := bufio.NewReader(conn).ReadString('\n')
		_, _ = io.WriteString(conn, "heard "+line)
		_ = conn.Close()
	}()
	s := New(Config{Runtime: fakecri.New(), Clock: clock.RealClock{}, Pod: func(string, string) (*corev1.Pod, bool) { return nil, false }})
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
	send := func(m *nodev1.ConnectRequest) {
		t.Helper()
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	send(&nodev1.ConnectRequest{Message: &nodev1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{
		Version: "v1", Resource: "nodes", Name: "n", Subresource: "tunnel", Query: "address=" + listener.Addr().String()}}})
	if m, err := stream.Recv(); err != nil || m.GetAccepted() == nil {
		t.Fatalf("%v, %v", m, err)
	}
	send(&nodev1.ConnectRequest{Message: &nodev1.ConnectRequest_Frame{Frame: &apiv1.ConnectFrame{Data: []byte("hel")}}})
	send(&nodev1.ConnectRequest{Message: &nodev1.ConnectRequest_Frame{Frame: &apiv1.ConnectFrame{Data: []byte("lo\n")}}})
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
	if got != "heard hello\n" {
		t.Errorf("got %q", got)
	}
}

func TestTunnelRefusals(t *testing.T) {
	t.Parallel()
	apiserver := rpc.User{Name: "apiserver", Groups: []string{Callers}}
	for query, code := range map[string]int32{"": http.StatusBadRequest, "address=web:80": http.StatusBadRequest, "address=127.0.0.1:1": http.StatusServiceUnavailable} {
		if got := refusal(t, apiserver, &apiv1.ConnectOpen{Version: "v1", Resource: "nodes", Name: "n", Subresource: "tunnel", Query: query}); got.Code != code {
			t.Errorf("%q: %d %s", query, got.Code, got.Message)
		}
	}
	node := rpc.User{Name: "system:node:x", Groups: []string{"system:nodes"}}
	if got := refusal(t, node, &apiv1.ConnectOpen{Version: "v1", Resource: "nodes", Name: "n", Subresource: "tunnel", Query: "address=127.0.0.1:1"}); got.Code != http.StatusForbidden {
		t.Errorf("another node: %d %s", got.Code, got.Message)
	}
}
