package rpc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// giving sends a message without, one with, and one without values.
type giving struct {
	apiv1.UnimplementedObjectServiceServer
	value any
}

func (g *giving) Watch(_ *apiv1.WatchRequest, stream grpc.ServerStreamingServer[apiv1.WatchResponse]) error {
	giver := rpc.GiverOf(stream.Context())
	for n := range 3 {
		if n == 1 && giver.Takes(g.value) {
			giver.Give([]any{g.value})
		}
		if err := stream.Send(&apiv1.WatchResponse{Events: []*apiv1.WatchEvent{{Revision: int64(n)}}}); err != nil {
			return err
		}
	}
	return nil
}

func TestValues(t *testing.T) {
	t.Parallel()
	number := 1
	wire, server := rpc.NewLocal(), rpc.NewServer(nil, nil)
	apiv1.RegisterObjectServiceServer(server, &giving{value: &number})
	memory := rpc.ListenInMemory()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- server.ServeLocal(ctx, wire) }()
	go func() { done <- server.ServeUntil(ctx, memory) }()
	t.Cleanup(func() { cancel(); <-done; <-done })
	over, err := memory.Dial(rpc.User{Name: "me"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = over.Close() })
	local := wire.Dial(rpc.User{Name: "me"})
	for name, c := range map[string]struct {
		conn   grpc.ClientConnInterface
		sample any
		gets   bool
	}{
		"in the process":           {local, new(int), true},
		"of another type":          {local, new(string), false},
		"over a network":           {over, new(int), false},
		"of one who does not want": {local, nil, false},
	} {
		values := rpc.TakeValues(c.sample)
		var options []grpc.CallOption
		if c.sample != nil {
			options = append(options, values)
		}
		stream, err := apiv1.NewObjectServiceClient(c.conn).Watch(within(t), &apiv1.WatchRequest{}, options...)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			response, err := stream.Recv()
			if err != nil || response.GetEvents()[0].GetRevision() != int64(n) {
				t.Fatalf("%s: message %d is %v, %v", name, n, response, err)
			}
			got := values.Last()
			if c.gets && n == 1 {
				if len(got) != 1 || got[0] != any(&number) {
					t.Errorf("%s: %v came with message %d", name, got, n)
				}
			} else if len(got) > 0 {
				t.Errorf("%s: %v came with message %d", name, got, n)
			}
		}
	}
}
