package outcome

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// dying is a server that goes away in the midst of each call, but for a name that it refuses.
type dying struct {
	apiv1.UnimplementedObjectServiceServer
	stop func()
}

func (d dying) Create(ctx context.Context, r *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	if r.GetNamespace() == "refused" {
		return nil, apistatus.ToGRPC(apierrors.NewServiceUnavailable("the database is not available, please try again"))
	}
	go d.stop() // which waits for this call
	<-ctx.Done()
	return &apiv1.CreateResponse{}, nil
}

func (d dying) Get(ctx context.Context, _ *apiv1.GetRequest) (*apiv1.GetResponse, error) {
	go d.stop()
	<-ctx.Done()
	return &apiv1.GetResponse{}, nil
}

func TestConn(t *testing.T) {
	t.Parallel()
	create := func(namespace string) func(context.Context, apiv1.ObjectServiceClient) error {
		return func(ctx context.Context, c apiv1.ObjectServiceClient) error {
			_, err := c.Create(ctx, &apiv1.CreateRequest{Namespace: namespace})
			return err
		}
	}
	get := func(ctx context.Context, c apiv1.ObjectServiceClient) error {
		_, err := c.Get(ctx, &apiv1.GetRequest{})
		return err
	}
	const unknown = "the connection to the API server was lost while it did the request: its outcome is not known"
	for name, test := range map[string]struct {
		call    func(context.Context, apiv1.ObjectServiceClient) error
		away    bool // there is no server
		message string
		again   bool // the client is to try again
	}{
		"a write that is lost":    {call: create("x"), message: "Timeout: " + unknown},
		"a read that is lost":     {call: get, again: true},
		"a write to nobody":       {call: create("x"), away: true, again: true},
		"a write that is refused": {call: create("refused"), message: "the database is not available, please try again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer()
			apiv1.RegisterObjectServiceServer(server, dying{stop: server.Stop})
			if test.away {
				listener.Close()
			} else {
				go func() { _ = server.Serve(listener) }()
				defer server.Stop()
			}
			conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			err = apistatus.FromGRPC(test.call(t.Context(), apiv1.NewObjectServiceClient(Conn{conn})))
			if _, again := apierrors.SuggestsClientDelay(err); again != test.again {
				t.Errorf("to be tried again: %v (%v)", again, err)
			}
			if test.message != "" && err.Error() != test.message {
				t.Errorf("%v, want %s", err, test.message)
			}
		})
	}
}
