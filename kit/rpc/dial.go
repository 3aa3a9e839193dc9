// Package rpc makes the mesh's gRPC connections and servers: mutual TLS,
// trace context, health, reflection, and errors that keep their Status.
package rpc

import (
	"crypto/tls"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
)

// MaxMessage is the largest message that either side accepts, in bytes. It
// is above Kubernetes' limit for a request (3 MiB) times the items of a batch
// that are likely; lists are streamed in chunks and never meet it.
const MaxMessage = 64 << 20

// Dial connects to a target such as "dns:///apiserver:7443", spreading calls
// over all of its addresses. It returns at once; calls wait for the connection.
func Dial(target string, tlsConfig *tls.Config, extra ...grpc.DialOption) (*grpc.ClientConn, error) {
	options := append(dialOptions(), grpc.WithTransportCredentials(credentials.NewTLS(tlsConfig)))
	return grpc.NewClient(target, append(options, extra...)...)
}

func clientStats() stats.Handler {
	return otelgrpc.NewClientHandler(otelgrpc.WithFilter(traced))
}

func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithStatsHandler(clientStats()),
		grpc.WithResolvers(newNames()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WithInitialWindowSize(1 << 20),
		grpc.WithInitialConnWindowSize(4 << 20),
	}
}
