// Package outcome keeps clients from repeating writes that may have been done.
package outcome

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// errUnknown is without a time to come again: a client library would, by itself, and tell its user that the object that it has just made exists already.
var errUnknown = apistatus.ToGRPC(apierrors.NewTimeoutError("the connection to the API server was lost while it did the request: its outcome is not known", 0))

// writes are the calls that are not to be repeated without a thought.
var writes = []string{
	apiv1.ObjectService_Create_FullMethodName, apiv1.ObjectService_Update_FullMethodName, apiv1.ObjectService_Patch_FullMethodName,
	apiv1.ObjectService_Delete_FullMethodName, apiv1.ObjectService_DeleteCollection_FullMethodName, apiv1.ObjectService_Batch_FullMethodName,
	apiv1.TransactionService_Transact_FullMethodName,
}

// Writes reports whether a call of a method, by its full name, may change something.
func Writes(method string) bool { return slices.Contains(writes, method) }

// Conn is a connection to API servers. A write that one of them may have got, and did not answer because it or its connection went away, ends with
// the 504 Timeout that says so. One that no server got is 503 ServiceUnavailable, to be tried again, and so is what only reads.
type Conn struct{ grpc.ClientConnInterface }

// Invoke implements grpc.ClientConnInterface.
func (c Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if !Writes(method) {
		return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	var server peer.Peer // is known from when the call has a connection
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, append(slices.Clip(opts), grpc.Peer(&server))...)
	if server.Addr != nil && broken(err) {
		return errUnknown
	}
	return err
}

// broken reports whether a call failed with its connection: what a server refuses comes with a Status.
func broken(err error) bool {
	s, ok := status.FromError(err)
	return ok && s.Code() == codes.Unavailable && len(s.Proto().GetDetails()) == 0
}
