package apiserver

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
)

// echo is a node agent that sends frames back, and the query first.
type echo struct {
	nodev1.UnimplementedNodeServiceServer
}

func (echo) Connect(stream grpc.BidiStreamingServer[nodev1.ConnectRequest, nodev1.ConnectResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	accepted := &apiv1.ConnectAccepted{Headers: []*apiv1.Header{{Name: "query", Value: first.GetOpen().GetQuery()}}}
	if err := stream.Send(&nodev1.ConnectResponse{Message: &nodev1.ConnectResponse_Accepted{Accepted: accepted}}); err != nil {
		return err
	}
	for {
		request, err := stream.Recv()
		if err != nil {
			return nil
		}
		if err := stream.Send(&nodev1.ConnectResponse{Message: &nodev1.ConnectResponse_Frame{Frame: request.GetFrame()}}); err != nil {
			return err
		}
	}
}

// startEcho runs such an agent, and returns how it is reached at any address; dialed is told which.
func startEcho(t *testing.T, dialed func(address string)) func(*Config) {
	t.Helper()
	nodes := rpc.ListenInMemory()
	agent := rpc.NewServer(nil, nil)
	nodev1.RegisterNodeServiceServer(agent, echo{})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- agent.ServeUntil(ctx, nodes) }()
	t.Cleanup(func() { cancel(); <-served })
	return func(c *Config) {
		c.NodeDialer = func(_ context.Context, address string) (*grpc.ClientConn, error) {
			dialed(address)
			return nodes.Dial(rpc.User{Name: "howdah:apiserver", Groups: []string{"howdah:apiservers"}})
		}
	}
}

// reachable makes the Node n1, whose agent is at 10.0.0.9:10250.
func (f *fixture) reachable() {
	f.t.Helper()
	node := f.must(f.create("v1/nodes", "", `{"metadata":{"name":"n1"}}`))
	node["status"] = map[string]any{
		"addresses":       []any{map[string]any{"type": "InternalIP", "address": "10.0.0.9"}},
		"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": 10250}},
	}
	body, err := json.Marshal(node)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{Version: "v1", Resource: "nodes", Name: "n1", Subresource: "status", Object: body}); err != nil {
		f.t.Fatal(err)
	}
}

func TestConnect(t *testing.T) {
	var dialed string
	f := startMemory(t, startEcho(t, func(address string) { dialed = address }))
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.reachable()
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"one"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"two"},"spec":{"nodeName":"n1","containers":[{"name":"a","image":"i"},{"name":"b","image":"i"}]}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"pending"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))

	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"lost"},"spec":{"nodeName":"n2","containers":[{"name":"c","image":"i"}]}}`))

	open := func(name, subresource, query string) (grpc.BidiStreamingClient[apiv1.ConnectRequest, apiv1.ConnectResponse], *apiv1.ConnectAccepted, error) {
		ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
		t.Cleanup(cancel)
		stream, err := f.api.Connect(ctx)
		if err == nil {
			err = stream.Send(&apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{
				Version: "v1", Resource: "pods", Namespace: "default", Name: name, Subresource: subresource, Method: "POST", Query: query}}})
		}
		if err != nil {
			t.Fatal(err)
		}
		resp, err := stream.Recv()
		return stream, resp.GetAccepted(), err
	}
	stream, accepted, err := open("one", "exec", "command=sh")
	if err != nil || dialed != "10.0.0.9:10250" || accepted.GetHeaders()[0].GetValue() != "command=sh&container=c" {
		t.Fatalf("exec: %v, dialed %s, %v", err, dialed, accepted)
	}
	for _, text := range []string{"hello", "world"} {
		if err := stream.Send(&apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Frame{Frame: &apiv1.ConnectFrame{Channel: 1, Data: []byte(text)}}}); err != nil {
			t.Fatal(err)
		}
		resp, err := stream.Recv()
		if err != nil || string(resp.GetFrame().GetData()) != text {
			t.Fatalf("%v %v", resp, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil || err.Error() != "EOF" {
		t.Errorf("after the caller's end: %v", err)
	}
	for _, c := range []struct {
		name, subresource, query string
		code                     int32
		text                     string
	}{
		{"absent", "exec", "", 404, `pods "absent" not found`},
		{"one", "exec", "container=x", 400, "container x is not valid for pod one"},
		{"two", "log", "", 400, "a container name must be specified for pod two, choose one of: [a b]"},
		{"pending", "exec", "", 400, "pod pending does not have a host assigned"},
		{"absent", "portforward", "ports=80&ports=x", 400, `cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax`},
		{"one", "log", "tailLines=x", 400, `strconv.ParseInt: parsing "x": invalid syntax`},
		{"absent", "log", "tailLines=-1&sinceSeconds=0", 422, `PodLogOptions "absent" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, sinceSeconds`},
		{"lost", "exec", "", 404, `pods "n2" not found`},
		{"absent", "exec", "dryRun=All", 400, "dryRun is not supported"},
		{"one", "proxy", "container=a&dryRun", 400, "dryRun is not supported"},
		{"absent", "log", "dryRun=All", 404, `pods "absent" not found`},
		{"one", "nonsense", "", 404, "the server could not find the requested resource"},
	} {
		_, _, err := open(c.name, c.subresource, c.query)
		if s := status(err); s.Code != c.code || !strings.Contains(s.Message, c.text) {
			t.Errorf("%s/%s: %d %s", c.name, c.subresource, s.Code, s.Message)
		}
	}
	if _, accepted, err := open("pending", "log", ""); err != nil || accepted.GetCode() != 204 {
		t.Errorf("the log of a pending pod: %v %v", accepted, err)
	}
}
