// Package cri is the node agent's way to the container runtime: the
// connection, the labels by which the agent knows its own, and what the
// runtime says of a pod in the agent's terms.
package cri

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage bounds an answer of the runtime; a list of all containers of a
// full node is well below it.
const maxMessage = 32 << 20

// Client holds both services of a runtime's socket.
type Client struct {
	Runtime runtimeapi.RuntimeServiceClient
	Images  runtimeapi.ImageServiceClient
	conn    *grpc.ClientConn
}

// Dial connects to an endpoint such as "unix:///run/containerd/containerd.sock".
// It returns at once; calls wait for the connection. registerer, which may be nil, gets the metrics of what is asked of the runtime.
func Dial(endpoint string, registerer prometheus.Registerer) (*Client, error) {
	m := newMetrics(registerer)
	conn, err := grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{ // a socket of this machine
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithUnaryInterceptor(m.unary), grpc.WithStreamInterceptor(m.stream),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("dial runtime %s: %w", endpoint, err)
	}
	return &Client{runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn), conn}, nil
}

// Conn is the connection, for services of the runtime beside CRI.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
