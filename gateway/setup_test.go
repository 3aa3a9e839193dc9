package gateway_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/gateway"
	"howdah.dev/gateway/internal/fake"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/rpc"
)

// cluster is a gateway over TLS with a fake API server behind it.
type cluster struct {
	*fake.Server
	t    testing.TB
	pki  *pki.Memory
	url  string
	conn *grpc.ClientConn
	// stop ends the gateway and waits for it; it may be called early.
	stop func()
}

func setup(t testing.TB, change ...func(*gateway.Config)) *cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	memory, err := pki.NewMemory(pki.Options{Nodes: []string{"node1"}})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Server: fake.New(), t: t, pki: memory}

	c.conn = dialServer(t, func(server *rpc.Server) { c.Server.Register(server) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tlsConfig, err := memory.Public("gateway")
	if err != nil {
		t.Fatal(err)
	}
	own, err := pki.NewAuthorities(memory.PEM())
	if err != nil {
		t.Fatal(err)
	}
	config := gateway.Config{Listener: listener, TLS: tlsConfig, Authority: own, APIServer: c.conn, StopTimeout: time.Second}
	for _, f := range change {
		f(&config)
	}
	g, err := gateway.New(config)
	if err != nil {
		t.Fatal(err)
	}
	c.url = "https://" + listener.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(c.stop)
	return c
}

// setups are the ways to the API server: over a network's protocol, and within the process.
var setups = map[string]func(testing.TB, ...func(*gateway.Config)) *cluster{"grpc": setup, "within a process": setupWithin}

// setupWithin is setup with the API server in the same process, as in the standalone.
func setupWithin(t testing.TB, change ...func(*gateway.Config)) *cluster {
	t.Helper()
	wire, server, api := rpc.NewLocal(), rpc.NewServer(nil, nil), fake.New()
	api.Register(server)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.ServeLocal(ctx, wire) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	c := setup(t, append(change, func(config *gateway.Config) {
		config.APIServer = wire.Dial(rpc.User{Name: "howdah:gateway", Groups: []string{"howdah:gateways"}})
	})...)
	c.Server = api
	return c
}

// as returns client-go's configuration for a role or node.
func (c *cluster) as(name string) *rest.Config {
	c.t.Helper()
	kubeconfig, err := c.pki.Kubeconfig(name, c.url)
	if err != nil {
		c.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// client returns an HTTP client that trusts the cluster; name may be empty for no certificate.
func (c *cluster) client(name string) *http.Client {
	c.t.Helper()
	config := &tls.Config{RootCAs: c.pki.Pool()}
	if name != "" {
		var err error
		if config, err = c.pki.Client(name); err != nil {
			c.t.Fatal(err)
		}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true}
	c.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// answered is a whole response.
type answered struct {
	*http.Response
	body string
}

// do sends a request; headers are "Name: value" lines.
func (c *cluster) do(client *http.Client, method, path, body string, headers ...string) answered {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answered{resp, string(data)}
}

// dialTLS opens a connection that speaks HTTP/1.1.
func (c *cluster) dialTLS(name string) *tls.Conn {
	c.t.Helper()
	config, err := c.pki.Client(name)
	if err != nil {
		c.t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(c.url, "https://"), config)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		c.t.Fatal(err)
	}
	return conn
}

// echoOver sends text to a local port, closes its half, and expects greeting and text back.
func echoOver(port uint16, text, greeting string) error {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	go func() {
		_, _ = io.WriteString(conn, text)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil {
		return err
	}
	if string(got) != greeting+text {
		return fmt.Errorf("got %d bytes, %.20q, want %d", len(got), got, len(greeting+text))
	}
	return nil
}

// awaitEnd waits until streams of the API server have ended, in any order.
func (c *cluster) awaitEnd(methods ...string) {
	c.t.Helper()
	var got []string
	for range methods {
		select {
		case method := <-c.Ended:
			got = append(got, method)
		case <-time.After(time.Minute):
			c.t.Fatalf("only %v have ended", got)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, methods) {
		c.t.Errorf("%v have ended, want %v", got, methods)
	}
}

// watch opens a watch and returns its body.
func (c *cluster) watch(ctx context.Context, client *http.Client, path string) io.ReadCloser {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", c.url+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s", path, resp.Status)
	}
	return resp.Body
}

// dialServer starts a gRPC server in memory and returns a connection to it.
func dialServer(t testing.TB, register func(*rpc.Server)) *grpc.ClientConn {
	t.Helper()
	wire := rpc.ListenInMemory()
	server := rpc.NewServer(nil, nil)
	register(server)
	conn, err := wire.Dial(rpc.User{Name: "howdah:gateway", Groups: []string{"howdah:gateways"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.ServeUntil(ctx, wire) }()
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return conn
}
