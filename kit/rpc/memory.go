package rpc

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/test/bufconn"
)

// InMemory is a listener whose connections stay in the process. Each dialer
// says who it is, as its certificate would over TLS: the standalone and
// tests use it.
type InMemory struct{ *bufconn.Listener }

// ListenInMemory returns a listener with buffers of 1 MiB a connection.
func ListenInMemory() InMemory { return InMemory{bufconn.Listen(1 << 20)} }

// Dial connects as user.
func (l InMemory) Dial(user User) (*grpc.ClientConn, error) {
	options := append(dialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(memoryCredentials{user}))
	return grpc.NewClient("passthrough:///memory", options...)
}

// memoryAuth is the AuthInfo of an in-memory connection.
type memoryAuth struct {
	credentials.CommonAuthInfo
	user User
}

func (memoryAuth) AuthType() string { return "memory" }

// memoryCredentials sends the user's name as one line of JSON before the
// first frame. They are safe only where both ends are the same process.
type memoryCredentials struct{ user User }

func (c memoryCredentials) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	line, err := json.Marshal(c.user)
	if err != nil {
		return nil, nil, err
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return nil, nil, err
	}
	return conn, memoryAuth{c.common(), c.user}, nil
}

func (c memoryCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	reader := bufio.NewReader(conn)
	line, err := reader.ReadBytes('\n')
	if err != nil {
		return nil, nil, err
	}
	var user User
	if err := json.Unmarshal(line, &user); err != nil {
		return nil, nil, fmt.Errorf("in-memory handshake: %w", err)
	}
	return bufferedConn{conn, reader}, memoryAuth{c.common(), user}, nil
}

func (memoryCredentials) common() credentials.CommonAuthInfo {
	return credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}
}

func (memoryCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "memory"}
}
func (c memoryCredentials) Clone() credentials.TransportCredentials { return c }
func (memoryCredentials) OverrideServerName(string) error           { return nil }

// bufferedConn reads first what the handshake read ahead.
type bufferedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c bufferedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }
