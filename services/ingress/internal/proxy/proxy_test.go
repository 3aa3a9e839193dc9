package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/ingress/internal/route"
)

func TestHostsLeadToServices(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("a", "", "10.0.0.1")
	f.service("b", "", "10.0.0.2")
	f.service("idle", "")
	f.serve("10.0.0.1", says("this is a"))
	f.serve("10.0.0.2", says("this is b"))
	f.routes("a.example.com=a", "*.b.example.com=b", "idle.example.com=idle", "gone.example.com=gone")
	for _, tt := range []struct {
		url, want string
		code      int
	}{
		{"http://a.example.com/x?y", "this is a", 200},
		{"http://A.Example.COM./", "this is a", 200},
		{"http://a.example.com:80/", "this is a", 200},
		{"http://x.b.example.com/", "this is b", 200},
		{"http://b.example.com/", "there is nothing at this host and path", 404},
		{"http://idle.example.com/", "there is no backend for this path now", 503},
		{"http://gone.example.com/", "there is no backend for this path now", 503},
		{"http://a.example.com/x/%2e%2e/y", `the path has elements "." or ".."`, 400},
	} {
		if code, body := f.get(tt.url); code != tt.code || body != tt.want {
			t.Errorf("%s: %d %q, want %d %q", tt.url, code, body, tt.code, tt.want)
		}
	}
	for _, raw := range []string{"CONNECT a.example.com:80 HTTP/1.1\r\nHost: a.example.com\r\n\r\n|405", "GET / HTTP/1.0\r\n\r\n|404"} {
		request, want, _ := strings.Cut(raw, "|")
		conn, err := net.Dial("tcp", f.http)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, request)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("%q is answered by %q, %v", request, line, err)
		}
	}
}

func TestBackendsLearnOfClients(t *testing.T) {
	t.Parallel()
	seen := func(trusted ...netip.Prefix) func(url string, headers ...string) string {
		f := start(t, func(c *Config) { c.Trusted = trusted })
		f.service("a", "", "10.0.0.1")
		f.serve("10.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s for=%s proto=%s host=%s own=%s hop=%s", r.Host, r.RequestURI,
				r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Own"), r.Header.Get("X-Hop"))
		}))
		f.secret("cert", "t.example.com")
		f.routes("a.example.com=a", "t.example.com=a,cert")
		return func(url string, headers ...string) string { _, body := f.get(url, headers...); return body }
	}
	direct, behind := seen(), seen(netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24"))
	forged := []string{"X-Forwarded-For", "198.51.100.7, 192.0.2.1", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "shop.example.com", "X-Own", "1", "Connection", "X-Hop", "X-Hop", "1"}
	for _, tt := range []struct{ name, got, want string }{
		{"plain", direct("http://a.example.com/x%2Fy?a=b;c&d=%zz"), "a.example.com /x%2Fy?a=b;c&d=%zz for=127.0.0.1 proto=http host=a.example.com own= hop="},
		{"TLS", direct("https://t.example.com/"), "t.example.com / for=127.0.0.1 proto=https host=t.example.com own= hop="},
		{"forged", direct("http://a.example.com/", forged...), "a.example.com / for=127.0.0.1 proto=http host=a.example.com own=1 hop="},
		{"by a trusted proxy", behind("http://a.example.com/", forged...), "a.example.com / for=198.51.100.7, 192.0.2.1, 127.0.0.1 proto=https host=shop.example.com own=1 hop="},
		{"TLS ended by a trusted proxy", behind("http://t.example.com/", "X-Forwarded-Proto", "https"), "t.example.com / for=127.0.0.1 proto=https host=t.example.com own= hop="},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestClientBehindTrustedProxies(t *testing.T) {
	t.Parallel()
	p := &Proxy{cfg: Config{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	for _, tt := range []struct{ from, header, want string }{
		{"192.0.2.1:5", "198.51.100.1", "192.0.2.1"},
		{"10.0.0.1:5", "", "10.0.0.1"},
		{"10.0.0.1:5", "203.0.113.1, 198.51.100.1, 10.0.0.2", "198.51.100.1"},
		{"10.0.0.1:5", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
		{"10.0.0.1:5", "nonsense, 10.0.0.2", "10.0.0.2"},
		{"[::ffff:192.0.2.1]:5", "", "192.0.2.1"},
	} {
		r := &http.Request{RemoteAddr: tt.from, Header: http.Header{}}
		if tt.header != "" {
			r.Header.Set("X-Forwarded-For", tt.header)
		}
		if got := p.peer(r).client.String(); got != tt.want {
			t.Errorf("%s with %q is %s, want %s", tt.from, tt.header, got, tt.want)
		}
	}
}

func TestPlainHTTPIsRedirected(t *testing.T) {
	t.Parallel()
	for port, want := range map[int]map[string]string{
		0:    {"t.example.com": "https://t.example.com/a?b", "t.example.com:80": "https://t.example.com/a?b", "t.example.com:8080": "https://t.example.com/a?b"},
		8443: {"t.example.com": "https://t.example.com/a?b", "t.example.com:80": "https://t.example.com/a?b", "t.example.com:8080": "https://t.example.com:8443/a?b"},
	} {
		f := start(t, func(c *Config) { c.RedirectPort = port })
		f.service("a", "", "10.0.0.1")
		f.secret("cert", "t.example.com")
		f.routes("t.example.com=a,cert", "p.example.com=a")
		f.serve("10.0.0.1", says("a"))
		for host, location := range want {
			response, err := f.client().Post("http://"+host+"/a?b", "text/plain", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if got := response.Header.Get("Location"); response.StatusCode != http.StatusPermanentRedirect || got != location {
				t.Errorf("%s: %d to %q, want %q", host, response.StatusCode, got, location)
			}
		}
		if code, body := f.get("http://p.example.com/"); code != 200 || body != "a" {
			t.Errorf("without TLS: %d %s", code, body)
		}
	}
}

func TestTLSByName(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("a", "", "10.0.0.1")
	f.serve("10.0.0.1", says("over TLS"))
	f.secret("one", "one.example.com")
	f.secret("many", "*.many.example.com")
	f.routes("one.example.com=a,one", "*.many.example.com=a,many", "bare.example.com=a")
	for name, want := range map[string]string{"one.example.com": "one", "ONE.example.com": "one", "x.many.example.com": "many", "bare.example.com": "fallback", "": "fallback"} {
		conn, err := tls.Dial("tcp", f.https, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("%q gets the certificate of %q, want %q", name, got, want)
		}
		_ = conn.Close()
	}
	response, err := f.client().Get("https://one.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.ProtoMajor != 2 || string(body) != "over TLS" {
		t.Errorf("HTTP/%d: %s", response.ProtoMajor, body)
	}
	if _, err := tls.Dial("tcp", f.https, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

func TestProtocolsOfBackends(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	protocol := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s tls=%v", r.Proto, r.TLS != nil) })
	for n, app := range []string{"", "kubernetes.io/h2c", "https", "kubernetes.io/wss", "kubernetes.io/ws"} {
		f.service(fmt.Sprint("s", n), app, fmt.Sprint("10.0.0.", n+1))
	}
	f.serve("10.0.0.1", protocol)
	f.serve("10.0.0.2", protocol)
	f.serve("10.0.0.5", echo(t))
	for _, address := range []string{"10.0.0.3", "10.0.0.4"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: protocol, TLSConfig: &tls.Config{Certificates: []tls.Certificate{f.pair("pod", "pod")}}}
		go func() { _ = s.ServeTLS(listener, "", "") }()
		t.Cleanup(func() { _ = s.Close() })
		f.place(address, listener.Addr().String())
	}
	f.routes("h.com=s0", "h2c.com=s1", "s.com=s2", "wss.com=s3", "ws.com=s4")
	for url, want := range map[string]string{
		"http://h.com/": "HTTP/1.1 tls=false", "http://h2c.com/": "HTTP/2.0 tls=false", "http://s.com/": "HTTP/2.0 tls=true", "http://wss.com/": "HTTP/2.0 tls=true",
	} {
		if code, body := f.get(url); code != 200 || body != want {
			t.Errorf("%s: %d %s, want %s", url, code, body, want)
		}
	}
}

// upgraded opens a connection through the proxy and upgrades it.
func upgraded(t *testing.T, conn net.Conn, host string) *bufio.Reader {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "GET /chat HTTP/1.1\r\nHost: "+host+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("upgrade: %+v, %v", response, err)
	}
	return reader
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("chat", "", "10.0.0.1")
	f.serve("10.0.0.1", echo(t))
	f.secret("cert", "t.example.com")
	f.routes("chat.example.com=chat", "t.example.com=chat,cert")
	plain, err := net.Dial("tcp", f.http)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	secure, err := tls.Dial("tcp", f.https, &tls.Config{ServerName: "t.example.com", InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	for host, conn := range map[string]net.Conn{"chat.example.com": plain, "t.example.com": secure} {
		reader := upgraded(t, conn, host)
		for n := range 3 {
			fmt.Fprintf(conn, "line %d\n", n)
			if line, err := reader.ReadString('\n'); err != nil || line != fmt.Sprintf("you said line %d\n", n) {
				t.Fatalf("%q, %v", line, err)
			}
		}
		_, _ = io.WriteString(conn, "bye\n")
		if rest, err := io.ReadAll(reader); err != nil || len(rest) > 0 {
			t.Errorf("after the end: %q, %v", rest, err)
		}
		_ = conn.Close()
	}
	waitFor(t, f, `howdah_ingress_requests_total{code="101",kind="Ingress",name="chat",namespace="shop"}`, "2")
}

// waitFor waits until no request is under way, and then wants a sample of the proxy's metrics.
func waitFor(t *testing.T, f *front, series, value string) {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); f.handlers.Wait() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("requests do not end")
	}
	text, err := testutil.CollectAndFormat(f.cfg.Metrics.requests, expfmt.TypeTextPlain, "howdah_ingress_requests_total")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), series+" "+value+"\n") {
		t.Fatalf("%s is not %s:\n%s", series, value, text)
	}
}

func TestAnotherEndpointIsTriedWhereNobodyListens(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("web", "", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	f.serve("10.0.0.3", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s of %d bytes", r.Method, len(body))
	}))
	f.routes("web.example.com=web")
	for range 20 {
		r, err := http.NewRequest(http.MethodPost, "http://web.example.com/", bytes.NewReader(make([]byte, 100_000)))
		if err != nil {
			t.Fatal(err)
		}
		if code, body := do(t, f.client(), r); code != 200 || body != "POST of 100000 bytes" {
			t.Fatalf("%d %s", code, body)
		}
	}
	if first, second := f.count("10.0.0.1:80"), f.count("10.0.0.2:80"); first > 1 || second > 1 || first+second == 0 {
		t.Errorf("the others were tried %d and %d times: they do not rest", first, second)
	}
}

func TestRequestsAreSentOnce(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("web", "", "10.0.0.1", "10.0.0.2")
	f.service("none", "", "10.0.0.8", "10.0.0.9", "10.0.0.7", "10.0.0.6")
	got := make(chan struct{}, 10)
	breaks := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- struct{}{}
		panic(http.ErrAbortHandler)
	})
	f.serve("10.0.0.1", breaks)
	f.serve("10.0.0.2", breaks)
	f.routes("web.example.com=web", "none.example.com=none")
	r, err := http.NewRequest(http.MethodPost, "http://web.example.com/", strings.NewReader("order"))
	if err != nil {
		t.Fatal(err)
	}
	if code, body := do(t, f.client(), r); code != http.StatusBadGateway || body != "the backend did not answer" || len(got) != 1 {
		t.Errorf("%d %s, sent %d times", code, body, len(got))
	}
	if code, _ := f.get("http://none.example.com/"); code != http.StatusBadGateway {
		t.Errorf("without anybody: %d", code)
	}
	total := 0
	for _, a := range []string{"10.0.0.6:80", "10.0.0.7:80", "10.0.0.8:80", "10.0.0.9:80"} {
		total += f.count(a)
	}
	if total != tries {
		t.Errorf("%d endpoints were tried, want %d", total, tries)
	}
}

func TestClientThatLeavesEndsTheRequest(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("web", "", "10.0.0.1")
	begun, ended := make(chan struct{}), make(chan struct{})
	f.serve("10.0.0.1", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(ended)
	}))
	f.routes("web.example.com=web")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://web.example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := f.client().Do(r); err == nil {
		_ = response.Body.Close()
		t.Error("an answer")
	}
	receive(t, ended, "the end of the request at the endpoint")
	waitFor(t, f, `howdah_ingress_requests_total{code="499",kind="Ingress",name="web",namespace="shop"}`, "1")
	endpoint := f.table.Load().Find(&route.Query{Port: route.PlainPort, Host: "web.example.com", Path: "/"}).Backend.Endpoints[0]
	if n := endpoint.Active.Load(); n != 0 {
		t.Errorf("%d requests are active", n)
	}
}

// TestNothingIsHeldBack holds that bodies of both directions pass as they come.
func TestNothingIsHeldBack(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("web", "", "10.0.0.1")
	first := make(chan string, 1)
	more := make(chan struct{})
	f.serve("10.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 5)
		_, _ = io.ReadFull(r.Body, piece)
		first <- string(piece)
		rest, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprintf(w, "%d more\n", len(rest))
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = io.WriteString(w, "the end")
		w.Header().Set("X-Sum", "42")
	}))
	f.routes("web.example.com=web")
	reader, writer := io.Pipe()
	go func() {
		_, _ = io.WriteString(writer, "hello")
		<-first // the endpoint has it before the client has sent all
		_, _ = writer.Write(make([]byte, 1<<20))
		_ = writer.Close()
	}()
	response, err := f.client().Post("http://web.example.com/", "text/plain", reader)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body := bufio.NewReader(response.Body)
	if line, err := body.ReadString('\n'); err != nil || line != "1048576 more\n" {
		t.Fatalf("%q, %v", line, err)
	}
	close(more)
	if rest, err := io.ReadAll(body); err != nil || string(rest) != "the end" || response.Trailer.Get("X-Sum") != "42" {
		t.Errorf("%q, %v, trailer %v", rest, err, response.Trailer)
	}
}

func TestLimitsOfTime(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *Config) { c.Limits.Answer, c.Limits.Idle = 200*time.Millisecond, 400*time.Millisecond })
	f.service("slow", "", "10.0.0.1")
	f.service("stalls", "", "10.0.0.2")
	f.service("chat", "", "10.0.0.3")
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	f.serve("10.0.0.1", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	f.serve("10.0.0.2", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		<-hold
	}))
	f.serve("10.0.0.3", echo(t))
	f.routes("slow.example.com=slow", "stalls.example.com=stalls", "chat.example.com=chat")
	if code, _ := f.get("http://slow.example.com/"); code != http.StatusGatewayTimeout {
		t.Errorf("an answer that does not begin: %d", code)
	}
	response, err := f.client().Get("http://stalls.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err == nil || string(body) != "some" {
		t.Errorf("an answer that stalls: %q, %v", body, err)
	}
	conn, err := net.Dial("tcp", f.http)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if rest, err := io.ReadAll(upgraded(t, conn, "chat.example.com")); err != nil || len(rest) > 0 {
		t.Errorf("a silent connection: %q, %v", rest, err)
	}
}

func TestStopping(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *Config) { c.Limits.Drain = time.Second })
	f.service("web", "", "10.0.0.1")
	f.service("chat", "", "10.0.0.2")
	begun, finish := make(chan struct{}), make(chan struct{})
	f.serve("10.0.0.1", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "done")
	}))
	f.serve("10.0.0.2", echo(t))
	f.routes("web.example.com=web", "chat.example.com=chat")
	conn, err := net.Dial("tcp", f.http)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	chat := upgraded(t, conn, "chat.example.com")
	answer := make(chan string, 1)
	go func() { _, body := f.get("http://web.example.com/"); answer <- body }()
	receive(t, begun, "the request")
	f.stop()
	refused := make(chan struct{})
	go func() {
		defer close(refused)
		for {
			conn, err := net.Dial("tcp", f.http)
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	receive(t, refused, "the closing of the port")
	close(finish)
	if got := receive(t, answer, "the answer that had begun"); got != "done" {
		t.Errorf("the request that was there ended with %q", got)
	}
	if err := receive(t, f.ended, "the end"); err != nil {
		t.Error(err)
	}
	f.ended <- nil
	if rest, err := io.ReadAll(chat); err != nil || len(rest) > 0 {
		t.Errorf("the upgraded connection: %q, %v", rest, err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *Config) { c.Limits.Connections = 1 })
	f.service("web", "", "10.0.0.1")
	f.serve("10.0.0.1", says("served"))
	f.routes("web.example.com=web")
	ask := func(conn net.Conn) <-chan string {
		out := make(chan string, 1)
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: web.example.com\r\n\r\n")
		go func() { line, _ := bufio.NewReader(conn).ReadString('\n'); out <- strings.TrimSpace(line) }()
		return out
	}
	first, err := net.Dial("tcp", f.http)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if got := receive(t, ask(first), "an answer"); got != "HTTP/1.1 200 OK" {
		t.Fatal(got)
	}
	second, err := net.Dial("tcp", f.http) // the kernel takes it, and the proxy does not
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	answer := ask(second)
	select {
	case got := <-answer:
		t.Fatalf("served beyond the limit: %s", got)
	case <-time.After(200 * time.Millisecond):
	}
	_ = first.Close()
	if got := receive(t, answer, "a free place"); got != "HTTP/1.1 200 OK" {
		t.Error(got)
	}
}

func TestSessionAffinity(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	s := f.service("web", "", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	for _, a := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		f.serve(a, says(a))
	}
	f.routes("web.example.com=web")
	_, first := f.get("http://web.example.com/")
	for range 20 {
		if _, again := f.get("http://web.example.com/"); again != first {
			t.Fatalf("%s, and then %s", first, again)
		}
	}
	f.mu.Lock()
	delete(f.places, first+":80")
	f.mu.Unlock()
	f.transport.close()
	if code, other := f.get("http://web.example.com/"); code != 200 || other == first {
		t.Errorf("with its endpoint gone: %d %s", code, other)
	}
}

func TestMetricsOfIngressesThatGo(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("web", "", "10.0.0.1")
	f.serve("10.0.0.1", says("a"))
	f.routes("web.example.com=web")
	f.get("http://web.example.com/")
	f.get("http://other.example.com/")
	waitFor(t, f, `howdah_ingress_requests_total{code="200",kind="Ingress",name="web",namespace="shop"}`, "1")
	f.routes("other.example.com=web2")
	waitFor(t, f, `howdah_ingress_requests_total{code="404",kind="",name="",namespace=""}`, "1")
	if n := testutil.CollectAndCount(f.cfg.Metrics.requests); n != 1 {
		t.Errorf("%d series, want 1", n)
	}
	if n := testutil.ToFloat64(f.cfg.Metrics.routes); n != 1 {
		t.Errorf("%v routes", n)
	}
}

func TestTraceGoesOn(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.service("traced", "", "10.9.9.9")
	parent := make(chan string, 1)
	f.serve("10.9.9.9", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { parent <- r.Header.Get("Traceparent") }))
	f.routes("traced.example.com=traced")
	const id = "0af7651916cd43dd8448eb211c80319c"
	f.get("http://traced.example.com/x", "Traceparent", "00-"+id+"-b7ad6b7169203331-01")
	got := <-parent
	if !strings.HasPrefix(got, "00-"+id+"-") || strings.Contains(got, "b7ad6b7169203331") {
		t.Errorf("the endpoint got %q", got)
	}
	waitFor(t, f, `howdah_ingress_requests_total{code="200",kind="Ingress",name="traced",namespace="shop"}`, "1")
	for _, span := range spans.Ended() { // a span ends before its request does
		if span.SpanContext().TraceID().String() != id {
			continue
		}
		text := ""
		for _, a := range span.Attributes() {
			text += fmt.Sprintf("%s=%s ", a.Key, a.Value.Emit())
		}
		for _, want := range []string{"k8s.kind=Ingress", "k8s.namespace=shop", "k8s.name=traced", "http.route=/", "howdah.endpoint=10.9.9.9:80", "http.response.status_code=200", "url.path=/x"} {
			if !strings.Contains(text, want+" ") {
				t.Errorf("the span %s lacks %s", text, want)
			}
		}
		return
	}
	t.Fatal("no span")
}
