package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
)

// executors are client-go's ways to run a command.
var executors = map[string]func(*rest.Config, *url.URL) (remotecommand.Executor, error){
	"websocket": func(c *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutor(c, http.MethodGet, u.String())
	},
	"websocket v4": func(c *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutorForProtocols(c, http.MethodGet, u.String(), "v4.channel.k8s.io")
	},
	"spdy": func(c *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(c, http.MethodPost, u)
	},
	"spdy v3": func(c *rest.Config, u *url.URL) (remotecommand.Executor, error) {
		transport, upgrader, err := spdy.RoundTripperFor(c)
		if err != nil {
			return nil, err
		}
		return remotecommand.NewSPDYExecutorForProtocols(transport, upgrader, http.MethodPost, u, "v3.channel.k8s.io")
	},
}

type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

func TestExec(t *testing.T) {
	t.Parallel()
	tests := []struct {
		command  string
		in       string
		tty      bool
		out, err string
		failure  func(t *testing.T, err error, executor string)
	}{
		{command: "both", out: "out", err: "err"},
		{command: "cat", in: strings.Repeat("0123456789", 100_000), out: strings.Repeat("0123456789", 100_000)},
		{command: "size", tty: true, out: `{"Width":80,"Height":24}`},
		{command: "exit 3", failure: func(t *testing.T, err error, executor string) {
			if executor == "spdy v3" {
				if err == nil || !strings.Contains(err.Error(), "exit status 3") {
					t.Errorf("got %v", err)
				}
				return
			}
			if e, ok := errors.AsType[exec.CodeExitError](err); !ok || e.Code != 3 {
				t.Errorf("got %v, want exit code 3", err)
			}
		}},
		{command: "broken", failure: func(t *testing.T, err error, _ string) {
			if err == nil || !strings.Contains(err.Error(), "the runtime is gone") {
				t.Errorf("got %v", err)
			}
		}},
	}
	c := setup(t)
	config := c.as("admin")
	client := kubernetes.NewForConfigOrDie(config)
	for name, newExecutor := range executors {
		for _, tt := range tests {
			t.Run(name+" "+tt.command, func(t *testing.T) {
				t.Parallel()
				if name == "websocket v4" && tt.in != "" {
					t.Skip("v4 over WebSocket cannot close stdin")
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				target := client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("p").SubResource("exec").
					VersionedParams(&corev1.PodExecOptions{
						Command: []string{tt.command}, Stdin: tt.in != "", Stdout: true, Stderr: !tt.tty, TTY: tt.tty,
					}, scheme.ParameterCodec).URL()
				executor, err := newExecutor(config, target)
				if err != nil {
					t.Fatal(err)
				}
				var out, errOut bytes.Buffer
				options := remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut, Tty: tt.tty}
				if tt.in != "" {
					options.Stdin = strings.NewReader(tt.in)
				}
				if tt.tty {
					options.Stderr = nil
					queue := make(sizes, 1)
					queue <- remotecommand.TerminalSize{Width: 80, Height: 24}
					defer close(queue)
					options.TerminalSizeQueue = queue
				}
				err = executor.StreamWithContext(ctx, options)
				if tt.failure != nil {
					tt.failure(t, err, name)
				} else if err != nil {
					t.Fatal(err)
				}
				if strings.TrimSpace(out.String()) != tt.out || errOut.String() != tt.err {
					t.Errorf("stdout %.50q stderr %.50q", out.String(), errOut.String())
				}
			})
		}
	}
}

func TestExecOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	c := setup(t)
	config := c.as("admin")
	for name, newExecutor := range executors {
		target, _ := url.Parse(c.url + "/api/v1/namespaces/default/pods/missing/exec?command=cat&stdout=true")
		executor, err := newExecutor(config, target)
		if err != nil {
			t.Fatal(err)
		}
		err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
		if err == nil || !strings.Contains(err.Error(), `pods "missing" not found`) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestExecEndsWithItsClient asserts that the call behind ends when the client does.
func TestExecEndsWithItsClient(t *testing.T) {
	t.Parallel()
	for name, newExecutor := range executors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			ctx, cancel := context.WithCancel(t.Context())
			target, _ := url.Parse(c.url + "/api/v1/namespaces/default/pods/p/exec?command=hang&stdout=true")
			executor, err := newExecutor(c.as("admin"), target)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard}) }()
			<-c.Requests
			cancel()
			<-ended
			c.awaitEnd("Connect")
		})
	}
}

func TestWebSocketProtocols(t *testing.T) {
	t.Parallel()
	c := setup(t)
	tlsConfig, err := c.pki.Client("admin")
	if err != nil {
		t.Fatal(err)
	}
	dialer := websocket.Dialer{TLSClientConfig: tlsConfig, HandshakeTimeout: 5 * time.Second}
	base := "wss" + strings.TrimPrefix(c.url, "https") + "/api/v1/namespaces/default/pods/p/"
	tests := []struct {
		name, path string
		offer      []string
		protocol   string
		want       []string // messages, in order
	}{
		{"binary", "exec?command=both&stdout=1&stderr=1", []string{"channel.k8s.io"}, "channel.k8s.io", []string{"\x01", "\x01out", "\x02err"}},
		{"no protocol", "exec?command=both&stdout=1&stderr=1", nil, "", []string{"\x01", "\x01out", "\x02err"}},
		{"base64", "exec?command=both&stdout=1&stderr=1", []string{"base64.channel.k8s.io"}, "base64.channel.k8s.io", []string{"1", "1b3V0", "2ZXJy"}},
		{"v4 tells success", "exec?command=both&stderr=1", []string{"v4.base64.channel.k8s.io"}, "v4.base64.channel.k8s.io",
			[]string{"2", "1b3V0", "2ZXJy", "3eyJtZXRhZGF0YSI6e30sInN0YXR1cyI6IlN1Y2Nlc3MifQ=="}},
		{"before v4, failure is text", "exec?command=exit+2", []string{"channel.k8s.io"}, "channel.k8s.io",
			[]string{"\x03", "\x03command terminated with non-zero exit code: exit status 2"}},
		{"log", "log", []string{"binary.k8s.io"}, "binary.k8s.io", []string{"one\n", "two\n"}},
		{"log in base64", "log", []string{"base64.binary.k8s.io"}, "base64.binary.k8s.io", []string{"b25lCg==", "dHdvCg=="}},
		{"watch", "/api/v1/pods?watch=true&resourceVersion=1", nil, "",
			[]string{`{"type":"ERROR","object":{"apiVersion":"v1","code":410,"kind":"Status","message":"too old resource version: 1","metadata":{},"reason":"Expired","status":"Failure"}}` + "\n"}},
		{"legacy portforward", "portforward?ports=9", []string{"v4.channel.k8s.io"}, "v4.channel.k8s.io",
			[]string{"\x00\x09\x00", "\x01\x09\x00", "\x01connection refused"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dialer := dialer
			dialer.Subprotocols = tt.offer
			target := base + tt.path
			if strings.HasPrefix(tt.path, "/") {
				target = "wss" + strings.TrimPrefix(c.url, "https") + tt.path
			}
			conn, _, err := dialer.DialContext(t.Context(), target, http.Header{"Origin": {"http://localhost"}})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if conn.Subprotocol() != tt.protocol {
				t.Errorf("protocol %q", conn.Subprotocol())
			}
			for _, want := range tt.want {
				_, got, err := conn.ReadMessage()
				if err != nil || string(got) != want {
					t.Fatalf("got %q %v, want %q", got, err, want)
				}
			}
			if _, got, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
				t.Errorf("got %q %v, want a normal closure", got, err)
			}
		})
	}
	t.Run("a protocol that is not spoken", func(t *testing.T) {
		t.Parallel()
		dialer := dialer
		dialer.Subprotocols = []string{"v9.channel.k8s.io"}
		if _, resp, err := dialer.DialContext(t.Context(), base+"exec?command=cat", nil); err == nil || resp == nil || resp.StatusCode != http.StatusBadRequest {
			t.Errorf("got %v %v", resp, err)
		}
	})
	t.Run("no upgrade", func(t *testing.T) {
		t.Parallel()
		got := c.do(c.client("admin"), "GET", "/api/v1/namespaces/default/pods/p/exec?command=cat", "")
		if got.StatusCode != 400 || !strings.Contains(got.body, "Upgrade request required") {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
	})
}

func TestPortForward(t *testing.T) {
	t.Parallel()
	c := setup(t)
	config := c.as("admin")
	dialers := map[string]func(*url.URL) (httpstream.Dialer, error){
		"spdy": func(u *url.URL) (httpstream.Dialer, error) {
			transport, upgrader, err := spdy.RoundTripperFor(config)
			if err != nil {
				return nil, err
			}
			return spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u), nil
		},
		"websocket tunnel": func(u *url.URL) (httpstream.Dialer, error) {
			return portforward.NewSPDYOverWebsocketDialer(u, config)
		},
	}
	for name, newDialer := range dialers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, _ := url.Parse(c.url + "/api/v1/namespaces/default/pods/p/portforward")
			dialer, err := newDialer(target)
			if err != nil {
				t.Fatal(err)
			}
			stop, ready := make(chan struct{}), make(chan struct{})
			forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{":80", ":9"}, stop, ready, io.Discard, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- forwarder.ForwardPorts() }()
			select {
			case <-ready:
			case err := <-ended:
				t.Fatal(err)
			}
			ports, err := forwarder.GetPorts()
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 20)
			for i := range cap(done) { // all at once, over one connection
				go func() {
					done <- echoOver(ports[0].Local, strings.Repeat(fmt.Sprint(i), 200_000), "port 80:")
				}()
			}
			for range cap(done) {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			// client-go gives up on the whole where one connection fails.
			if err := echoOver(ports[1].Local, "", ""); err != nil {
				t.Error(err)
			}
			if err := <-ended; !errors.Is(err, portforward.ErrLostConnectionToPod) {
				t.Error(err)
			}
		})
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	c := setup(t)
	pods := kubernetes.NewForConfigOrDie(c.as("admin")).CoreV1().Pods("default")
	data, err := pods.GetLogs("p", &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || string(data) != "one\ntwo\n" {
		t.Fatalf("%q %v", data, err)
	}
	if _, err := pods.GetLogs("missing", &corev1.PodLogOptions{}).DoRaw(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	body, err := pods.GetLogs("p", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	lines := bufio.NewReader(body)
	for _, want := range []string{"a\n", "b\n"} {
		c.LinesFollow <- want // and no more: each line must arrive by itself
		if got, err := lines.ReadString('\n'); got != want || err != nil {
			t.Fatalf("got %q %v", got, err)
		}
	}
	close(c.LinesFollow)
	if rest, err := io.ReadAll(lines); len(rest) != 0 || err != nil {
		t.Errorf("at the end %q %v", rest, err)
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	c := setup(t)
	client := c.client("admin")
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	tests := []struct {
		method, path, body, want string
		code                     int
	}{
		{"GET", "/api/v1/namespaces/default/pods/p:80/proxy/a%2Fb/c/?q=1", "", "GET /a/b/c/?q=1 auth=\"\" x=\"y\"\n", 202},
		{"POST", "/api/v1/namespaces/default/services/s:http/proxy/x", strings.Repeat("body", 50_000), "POST /x? auth=\"\" x=\"y\"\n", 202},
		{"DELETE", "/api/v1/nodes/node1/proxy/", "", "DELETE /? auth=\"\" x=\"y\"\n", 202},
		{"GET", "/api/v1/nodes/missing/proxy/", "", `{"kind":"Status"`, 404},
	}
	for _, tt := range tests {
		got := c.do(client, tt.method, tt.path, tt.body, "X-Test: y", "Authorization: Bearer secret")
		if got.StatusCode != tt.code || !strings.HasPrefix(got.body, tt.want) {
			t.Errorf("%s %s: %d %.100s", tt.method, tt.path, got.StatusCode, got.body)
		}
		if tt.code == 202 && (got.body != tt.want+tt.body || got.Header.Get("Content-Type") != "text/x-test") {
			t.Errorf("%s %s: %d bytes, %v", tt.method, tt.path, len(got.body), got.Header)
		}
	}
	for path, want := range map[string]string{"/proxy?x=1": "", "/proxy/?x=1": "/", "/proxy//": "/", "/proxy/a": "/a"} {
		got := c.do(client, "GET", "/api/v1/namespaces/default/pods/p"+path, "")
		if asked, _, _ := strings.Cut(got.body, "?"); asked != "GET "+want {
			t.Errorf("%s: %d %q", path, got.StatusCode, got.body)
		}
	}
}

func TestProxyUpgrade(t *testing.T) {
	t.Parallel()
	c := setup(t)
	conn := c.dialTLS("admin")
	defer conn.Close()
	fmt.Fprintf(conn, "GET /api/v1/namespaces/default/pods/p/proxy/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\nearly ")
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil || resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "test" {
		t.Fatalf("%v %v", resp, err)
	}
	fmt.Fprint(conn, "late")
	got := make([]byte, len("early late"))
	if _, err := io.ReadFull(reader, got); err != nil || string(got) != "early late" {
		t.Errorf("%q %v", got, err)
	}
}
