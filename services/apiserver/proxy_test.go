package apiserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/memstore"
)

// answered is what came back from a proxied request.
type answered struct {
	code   int32
	header http.Header
	body   string
}

// proxied makes a request as a gateway does. send, which may be nil, goes after the headers, piece by piece.
func (f *fixture) proxied(open *apiv1.ConnectOpen, send ...string) (answered, error) {
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()
	stream, err := f.api.Connect(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	if open.Method == "" {
		open.Method = http.MethodGet
	}
	if open.Subresource == "" && open.Resource != "" {
		open.Version, open.Subresource = "v1", "proxy"
	}
	open.Headers = append(open.Headers, &apiv1.Header{Name: "X-Forwarded-Host", Value: "gateway"}, &apiv1.Header{Name: "X-Forwarded-Proto", Value: "https"})
	message := &apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: open}}
	for i := 0; ; i++ {
		if err := stream.Send(message); err != nil && !errors.Is(err, io.EOF) {
			f.t.Fatal(err)
		}
		if i == len(send) {
			break
		}
		message = &apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Frame{Frame: &apiv1.ConnectFrame{Data: []byte(send[i])}}}
	}
	upgrade := len(open.Headers) > 0 && open.Headers[0].Name == "Connection"
	if !upgrade { // it would end the connection
		_ = stream.CloseSend()
	}
	first, err := stream.Recv()
	if err != nil {
		return answered{}, err
	}
	out := answered{code: first.GetAccepted().GetCode(), header: http.Header{}}
	for _, h := range first.GetAccepted().GetHeaders() {
		out.header.Add(h.GetName(), h.GetValue())
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out.body += string(m.GetFrame().GetData())
	}
}

// backend answers with what it was asked.
func backendHandler(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/link":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/rewriteme">test</a>`)
	case "/redirect":
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	case "/upgrade":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
		line, _ := bufio.NewReader(conn).ReadString('\n')
		fmt.Fprint(conn, strings.ToUpper(line))
	default:
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Seen", r.Header.Get("X-Custom"))
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.RequestURI(), body)
	}
}

func portOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestStreamsSeeWhatWasCommitted has one server write where a pod is, and another, whose log is held back, lead to it: that waits
// for its log before it says that the pod is nowhere, but not for long, since the store may be away.
func TestStreamsSeeWhatWasCommitted(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(backendHandler))
	t.Cleanup(backend.Close)
	st, held := memory{memstore.New()}, &sync.Mutex{}
	a, b := start(t, st), start(t, late{st, held}, leadingHome)
	a.must(a.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	a.must(a.create("v1/pods", "default", `{"metadata":{"name":"web"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
	b.must(b.get("v1/pods", "default", "web"))
	ask := func() (answered, error) {
		return b.proxied(&apiv1.ConnectOpen{Namespace: "default", Resource: "pods", Name: "web:" + portOf(t, backend), Path: "/x"})
	}
	held.Lock()
	_, err := a.change("v1/pods", "default", "web", "merge-patch+json", `{"status":{"podIP":"10.1.2.3","podIPs":[{"ip":"10.1.2.3"}]}}`,
		func(r *apiv1.PatchRequest) { r.Subresource = "status" })
	began := time.Now()
	got, early := ask()
	waited := time.Since(began)
	held.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if early == nil || waited < 200*time.Millisecond {
		t.Errorf("answered after %v, before it can have known: %+v, %v", waited, got, early)
	}
	b.await("the proxy leads to the pod", func() bool {
		got, err := ask()
		return err == nil && got.code == http.StatusAccepted
	})
}

// leadingHome leads the address of the tests' pods to this machine.
func leadingHome(c *Config) {
	c.PodDialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, strings.Replace(address, "10.1.2.3", "127.0.0.1", 1))
	}
}

func TestProxy(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(backendHandler))
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.HandlerFunc(backendHandler))
	secure.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	defer secure.Close()
	port, securePort := portOf(t, plain), portOf(t, secure)
	f := startMemory(t, leadingHome)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"web"},"spec":{"containers":[{"name":"c","image":"i","ports":[{"name":"http","containerPort":`+port+`}]}]}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"pending"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
	if _, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "web", Subresource: "status",
		ContentType: "application/merge-patch+json", Object: []byte(`{"status":{"podIP":"10.1.2.3","podIPs":[{"ip":"10.1.2.3"}]}}`)}); err != nil {
		t.Fatal(err)
	}
	f.must(f.create("v1/services", "default", `{"metadata":{"name":"web"},"spec":{"ports":[{"name":"http","port":80},{"name":"tls","port":443}]}}`))
	f.must(f.create("v1/services", "default", `{"metadata":{"name":"empty"},"spec":{"ports":[{"port":80}]}}`))
	// The dialer of this test leads the pod's address to the backends.
	f.must(f.create("v1/endpoints", "default", `{"metadata":{"name":"web"},"subsets":[{
		"addresses":[{"ip":"10.1.2.4"},{"ip":"10.1.2.4","targetRef":{"kind":"Pod","name":"web","namespace":"default"}},
			{"ip":"10.1.2.3","targetRef":{"kind":"Pod","name":"web","namespace":"default"}}],
		"ports":[{"name":"http","port":`+port+`},{"name":"tls","port":`+securePort+`}]}]}`))
	f.must(f.create("v1/endpoints", "default", `{"metadata":{"name":"empty"}}`))
	f.must(f.create("v1/services", "default", `{"metadata":{"name":"bare"},"spec":{"ports":[{"port":80}]}}`))
	const pods, services = "/api/v1/namespaces/default/pods/", "/api/v1/namespaces/default/services/"
	header := []*apiv1.Header{{Name: "X-Custom", Value: "yes"}}
	for name, c := range map[string]struct {
		open   *apiv1.ConnectOpen
		send   []string
		code   int32
		body   string
		header [2]string
	}{
		"pod":             {open: &apiv1.ConnectOpen{Resource: "pods", Name: "web", Path: "/a%2Fb//../c%20", Query: "q=1&q=2", Headers: header}, code: 202, body: "GET /a/c%20?q=1&q=2 ", header: [2]string{"Seen", "yes"}},
		"port by number":  {open: &apiv1.ConnectOpen{Resource: "pods", Name: "web:" + port, Path: "/x"}, code: 202, body: "GET /x "},
		"port by name":    {open: &apiv1.ConnectOpen{Resource: "pods", Name: "http:web:http", Path: "/x"}, code: 202, body: "GET /x "},
		"TLS":             {open: &apiv1.ConnectOpen{Resource: "pods", Name: "https:web:" + securePort, Path: "/x"}, code: 202, body: "GET /x "},
		"POST":            {open: &apiv1.ConnectOpen{Resource: "pods", Name: "web", Path: "/x", Method: "POST"}, send: []string{"hel", "lo"}, code: 202, body: "POST /x hello"},
		"PUT of a length": {open: &apiv1.ConnectOpen{Resource: "pods", Name: "web", Path: "/x", Method: "PUT", Headers: []*apiv1.Header{{Name: "Content-Length", Value: "3"}}}, send: []string{"abc"}, code: 202, body: "PUT /x abc"},
		"PATCH":           {open: &apiv1.ConnectOpen{Resource: "services", Name: "web:80", Path: "/x", Method: "PATCH"}, send: []string{"p"}, code: 202, body: "PATCH /x p"},
		"DELETE":          {open: &apiv1.ConnectOpen{Resource: "services", Name: "web:http", Path: "/x", Method: "DELETE"}, code: 202, body: "DELETE /x "},
		"service and TLS": {open: &apiv1.ConnectOpen{Resource: "services", Name: "https:web:tls", Path: "/x"}, code: 202, body: "GET /x "},
		"link":            {open: &apiv1.ConnectOpen{Resource: "pods", Name: "web:" + port, Path: "/link"}, code: 200, body: `<a href="` + pods + "web:" + port + `/proxy/rewriteme">test</a>`},
		"redirect":        {open: &apiv1.ConnectOpen{Resource: "services", Name: "web:http", Path: "/redirect"}, code: 302, header: [2]string{"Location", services + "web:http/proxy/elsewhere"}},
		"slash":           {open: &apiv1.ConnectOpen{Resource: "pods", Name: "web", Query: "q=1", Headers: []*apiv1.Header{{Name: "X-Forwarded-Uri", Value: "/here"}}}, code: 301, header: [2]string{"Location", "/here/?q=1"}},
		"no slash":        {open: &apiv1.ConnectOpen{Resource: "pods", Name: "web", Method: "POST"}, code: 202, body: "POST / "},
		"upgrade": {open: &apiv1.ConnectOpen{Resource: "pods", Name: "web", Path: "/upgrade", Headers: []*apiv1.Header{{Name: "Connection", Value: "Upgrade"}, {Name: "Upgrade", Value: "shout"}}},
			send: []string{"hello\n"}, code: 101, body: "HELLO\n"},
	} {
		t.Run(name, func(t *testing.T) {
			c.open.Namespace = "default"
			got, err := f.proxied(c.open, c.send...)
			if err != nil {
				t.Fatal(err)
			}
			if got.code != c.code || c.body != "" && got.body != c.body || got.header.Get(c.header[0]) != c.header[1] {
				t.Errorf("%+v", got)
			}
		})
	}
	for name, c := range map[string]struct {
		resource, name string
		code           int32
		text           string
	}{
		"absent pod":           {"pods", "absent", 404, `pods "absent" not found`},
		"no address":           {"pods", "pending", 400, "address not allowed"},
		"nonsense":             {"pods", "a:b:c:d", 400, `invalid pod request "a:b:c:d"`},
		"no Endpoints":         {"services", "bare:80", 404, `services "bare" not found`},
		"no endpoints":         {"services", "empty:80", 503, `no endpoints available for service "empty"`},
		"no such port":         {"services", "web:81", 503, `no service port 81 found for service "web"`},
		"ambiguous port":       {"services", "web", 503, `no endpoints available for service "web"`},
		"nobody listens":       {"pods", "web:1", 503, "error trying to reach service: dial tcp"},
		"no such service":      {"services", "absent:80", 404, `services "absent" not found`},
		"a kind that has none": {"configmaps", "kube-root-ca.crt", 404, "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.proxied(&apiv1.ConnectOpen{Resource: c.resource, Namespace: "default", Name: c.name, Path: "/"})
			if s := status(err); s.Code != c.code || !strings.Contains(s.Message, c.text) {
				t.Errorf("%d %s", s.Code, s.Message)
			}
		})
	}
}
