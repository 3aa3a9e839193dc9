package gateway_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/gateway"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// TestRequests asserts, for every shape of path, which message reaches the API server.
func TestRequests(t *testing.T) {
	t.Parallel()
	const object = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`
	tests := []struct{ method, path, body, want string }{
		{"GET", "/api/v1/nodes/n", "", `Get {"version":"v1","resource":"nodes","name":"n","accept":"*/*"}`},
		{"GET", "/api/v1/nodes/n/status", "", `Get {"version":"v1","resource":"nodes","name":"n","subresource":"status","accept":"*/*"}`},
		{"GET", "/api/v1/namespaces/a", "", `Get {"version":"v1","resource":"namespaces","name":"a","accept":"*/*"}`},
		{"GET", "/api/v1/namespaces/a/status", "", `Get {"version":"v1","resource":"namespaces","name":"a","subresource":"status","accept":"*/*"}`},
		{"GET", "/api/v1/namespaces/a/pods/p?resourceVersion=0&includeObject=Metadata", "", `Get {"version":"v1","resource":"pods","namespace":"a","name":"p","resourceVersion":"0","includeObject":"Metadata","accept":"*/*"}`},
		{"GET", "/api/v1/namespaces/watch/pods/namespaces", "", `Get {"version":"v1","resource":"pods","namespace":"watch","name":"namespaces","accept":"*/*"}`},
		{"GET", "/apis/apps/v1/namespaces/a/deployments/d/scale", "", `Get {"group":"apps","version":"v1","resource":"deployments","namespace":"a","name":"d","subresource":"scale","accept":"*/*"}`},
		{"GET", "/apis/x.io/v1/things/a:b%2Cc%20d", "", `Get {"group":"x.io","version":"v1","resource":"things","name":"a:b,c d","accept":"*/*"}`},
		{"GET", "/api/v1/namespaces", "", `List {"version":"v1","resource":"namespaces","accept":"*/*"}`},
		{"GET", "/api/v1/namespaces/a/pods?limit=5&continue=x&labelSelector=a%3Db", "", `List {"version":"v1","resource":"pods","namespace":"a","limit":"5","continue":"x","labelSelector":"a=b","accept":"*/*"}`},
		{"GET", "/apis/apps/v1/deployments", "", `List {"group":"apps","version":"v1","resource":"deployments","accept":"*/*"}`},
		{"GET", "/apis/apps/v1/namespaces/a/deployments", "", `List {"group":"apps","version":"v1","resource":"deployments","namespace":"a","accept":"*/*"}`},
		{"GET", "/apis/apps/v1/deployments?watch=1&timeoutSeconds=1&resourceVersion=5&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "",
			`Watch {"group":"apps","version":"v1","resource":"deployments","timeoutSeconds":"1","resourceVersion":"5","allowWatchBookmarks":true,"sendInitialEvents":"true","resourceVersionMatch":"NotOlderThan","accept":"*/*"}`},
		{"GET", "/api/v1/namespaces?watch=1&timeoutSeconds=1&resourceVersion=5", "", `Watch {"version":"v1","resource":"namespaces","timeoutSeconds":"1","resourceVersion":"5","accept":"*/*"}`},
		{"GET", "/api/v1/watch/namespaces/a/pods/p?timeoutSeconds=1&resourceVersion=5", "", `Watch {"version":"v1","resource":"pods","namespace":"a","name":"p","timeoutSeconds":"1","resourceVersion":"5","accept":"*/*"}`},
		{"GET", "/apis/apps/v1/watch/namespaces/a/deployments?timeoutSeconds=1&resourceVersion=5", "", `Watch {"group":"apps","version":"v1","resource":"deployments","namespace":"a","timeoutSeconds":"1","resourceVersion":"5","accept":"*/*"}`},
		{"POST", "/api/v1/nodes", object, `Create {"version":"v1","resource":"nodes","object":OBJECT,"contentType":"application/json","accept":"*/*"}`},
		{"POST", "/api/v1/namespaces/a/pods?dryRun=All", object, `Create {"version":"v1","resource":"pods","namespace":"a","dryRun":["All"],"object":OBJECT,"contentType":"application/json","accept":"*/*"}`},
		{"POST", "/api/v1/namespaces/a/pods/p/binding", object, `Create {"version":"v1","resource":"pods","namespace":"a","name":"p","subresource":"binding","object":OBJECT,"contentType":"application/json","accept":"*/*"}`},
		{"POST", "/apis/apps/v1/namespaces/a/deployments", object, `Create {"group":"apps","version":"v1","resource":"deployments","namespace":"a","object":OBJECT,"contentType":"application/json","accept":"*/*"}`},
		{"POST", "/apis/x.io/v1/things/t/approve", object, `Create {"group":"x.io","version":"v1","resource":"things","name":"t","subresource":"approve","object":OBJECT,"contentType":"application/json","accept":"*/*"}`},
		{"PUT", "/api/v1/namespaces/a/finalize", object, `Update {"version":"v1","resource":"namespaces","name":"a","subresource":"finalize","object":OBJECT,"contentType":"application/json","accept":"*/*"}`},
		{"PUT", "/apis/apps/v1/namespaces/a/deployments/d/status", object, `Update {"group":"apps","version":"v1","resource":"deployments","namespace":"a","name":"d","subresource":"status","object":OBJECT,"contentType":"application/json","accept":"*/*"}`},
		{"PATCH", "/api/v1/nodes/n?force=true&fieldManager=m", object, `Patch {"version":"v1","resource":"nodes","name":"n","object":OBJECT,"force":"true","contentType":"application/json","fieldManager":"m","accept":"*/*"}`},
		{"DELETE", "/api/v1/namespaces/a", "", `Delete {"version":"v1","resource":"namespaces","name":"a","contentType":"application/json","accept":"*/*"}`},
		{"DELETE", "/api/v1/namespaces/a/pods/p?gracePeriodSeconds=0&propagationPolicy=Background", object, `Delete {"version":"v1","resource":"pods","namespace":"a","name":"p","options":OBJECT,"gracePeriodSeconds":"0","propagationPolicy":"Background","contentType":"application/json","accept":"*/*"}`},
		{"DELETE", "/api/v1/namespaces/a/pods?labelSelector=x", "", `DeleteCollection {"version":"v1","resource":"pods","namespace":"a","labelSelector":"x","contentType":"application/json","accept":"*/*"}`},
		{"DELETE", "/apis/apps/v1/deployments", "", `DeleteCollection {"group":"apps","version":"v1","resource":"deployments","contentType":"application/json","accept":"*/*"}`},
	}
	c := setup(t)
	client := c.client("admin")
	for _, tt := range tests {
		c.do(client, tt.method, tt.path, tt.body, "Accept: */*", "User-Agent: test/1", "Content-Type: application/json")
		var got proto.Message
		select {
		case request := <-c.Requests:
			got = request.(proto.Message)
		case <-time.After(time.Minute):
			t.Errorf("%s %s reaches nothing", tt.method, tt.path)
			continue
		}
		kind, text, _ := strings.Cut(tt.want, " ")
		encoded, _ := json.Marshal([]byte(tt.body)) // bytes are base64 in proto's JSON
		want := proto.Clone(got)
		proto.Reset(want)
		if err := protojson.Unmarshal([]byte(strings.ReplaceAll(text, "OBJECT", string(encoded))), want); err != nil {
			t.Errorf("%s %s reaches %T: %v", tt.method, tt.path, got, err)
			continue
		}
		if name := string(got.ProtoReflect().Descriptor().Name()); name != kind+"Request" || !proto.Equal(got, want) {
			t.Errorf("%s %s\n got %s %v\nwant %v", tt.method, tt.path, name, got, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	c := setup(t, func(config *gateway.Config) { config.MaxBody = 1000 })
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a"}}`
	const notFound = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}` + "\n"
	const notAllowed = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}` + "\n"
	const noPage = "404 page not found\n"
	tests := []struct {
		name, method, path, body string
		headers                  []string
		code                     int
		want                     string // a prefix of the body, or all of it where it ends with a newline
		contentType              string
	}{
		{"create", "POST", "/api/v1/namespaces/a/pods", pod, nil, 201, `{"apiVersion":"v1","kind":"Pod"`, "application/json"},
		{"get", "GET", "/api/v1/namespaces/a/pods/p", "", nil, 200, `{"apiVersion":"v1","kind":"Pod"`, "application/json"},
		{"protobuf", "GET", "/api/v1/namespaces/a/pods/p", "", []string{"Accept: application/vnd.kubernetes.protobuf"}, 200, "k8s\x00", "application/vnd.kubernetes.protobuf"},
		{"apply creates", "PATCH", "/api/v1/namespaces/a/pods/q", pod, []string{"Content-Type: application/apply-patch+yaml"}, 201, `{"apiVersion"`, "application/json"},
		{"not found", "GET", "/api/v1/namespaces/a/pods/x", "", nil, 404,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"x\" not found","reason":"NotFound","details":{"name":"x","kind":"pods"},"code":404}` + "\n", "application/json"},
		{"not found in YAML", "GET", "/api/v1/namespaces/a/pods/x", "", []string{"Accept: application/yaml"}, 404, "apiVersion: v1\ncode: 404", "application/yaml"},
		{"not found in protobuf", "GET", "/api/v1/namespaces/a/pods/x", "", []string{"Accept: application/vnd.kubernetes.protobuf"}, 404, "k8s\x00", "application/vnd.kubernetes.protobuf"},
		{"malformed", "POST", "/api/v1/namespaces/a/pods", "{", nil, 400, `{"kind":"Status"`, "application/json"},
		{"too large", "POST", "/api/v1/namespaces/a/pods", strings.Repeat("x", 1001), nil, 413,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Request entity too large: limit is 1000","reason":"RequestEntityTooLarge","code":413}` + "\n", "application/json"},
		{"bad limit", "GET", "/api/v1/pods?limit=x", "", nil, 400, `{"kind":"Status"`, "application/json"},
		{"bad timeout", "GET", "/api/v1/pods?timeout=x", "", nil, 400, `{"kind":"Status"`, "application/json"},
		{"unknown path", "GET", "/nothing/here", "", nil, 404, noPage, "text/plain; charset=utf-8"},
		{"behind a subresource", "GET", "/api/v1/namespaces/a/pods/p/status/x", "", nil, 404, notFound, "application/json"},
		{"post to a name", "POST", "/api/v1/namespaces/a/pods/p", pod, nil, 405, notAllowed, "application/json"},
		{"put to a collection", "PUT", "/api/v1/namespaces/a/pods", pod, nil, 405, notAllowed, "application/json"},
		{"an odd method", "OPTIONS", "/api/v1/pods", "", nil, 405, notAllowed, "application/json"},
		{"a document is read only", "POST", "/version", "", nil, 405, notAllowed, "application/json"},
		{"version", "GET", "/version", "", nil, 200, `{"major":"1"`, "application/json"},
		{"health", "GET", "/readyz", "", nil, 200, "ok", "text/plain; charset=utf-8"},
		{"root", "GET", "/", "", nil, 200, "{\n  \"paths\": [\n    \"/.well-known/openid-configuration\",\n    \"/api\"", "application/json"},
		{"authorities", "GET", "/howdah/v1/authorities", "", nil, 200, `"a certificate"`, "application/json"},
		{"no such role", "GET", "/howdah/v1/controllers/queues", "", nil, 404, notFound, "application/json"},
		{"no metrics", "GET", "/metrics", "", nil, 404, noPage, "text/plain; charset=utf-8"},
	}
	client := c.client("admin")
	for _, tt := range tests {
		got := c.do(client, tt.method, tt.path, tt.body, tt.headers...)
		if got.StatusCode != tt.code || !strings.HasPrefix(got.body, tt.want) || strings.HasSuffix(tt.want, "\n") && got.body != tt.want {
			t.Errorf("%s: %d %s", tt.name, got.StatusCode, got.body)
		}
		if got.Header.Get("Content-Type") != tt.contentType || got.Header.Get("Cache-Control") != "no-cache, private" {
			t.Errorf("%s: %v", tt.name, got.Header)
		}
	}
}

func TestChunkedBodyThatIsTooLarge(t *testing.T) {
	t.Parallel()
	c := setup(t, func(config *gateway.Config) { config.MaxBody = 1000 })
	req, err := http.NewRequestWithContext(t.Context(), "POST", c.url+"/api/v1/namespaces/a/pods", io.MultiReader(strings.NewReader(strings.Repeat("x", 2000))))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.client("admin").Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("%d", resp.StatusCode)
	}
}

// TestUnreadBodyIsNotAnEmptyOne looks at what an API server gets that does not know how a gateway tells of a body that it could not read.
func TestUnreadBodyIsNotAnEmptyOne(t *testing.T) {
	t.Parallel()
	c := setup(t, func(config *gateway.Config) { config.MaxBody = 1000 })
	got := c.do(c.client("admin"), "DELETE", "/api/v1/namespaces/a/pods", strings.Repeat("x", 1001))
	if got.StatusCode != 413 {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
	request, ok := (<-c.Requests).(*apiv1.DeleteCollectionRequest)
	if !ok || string(request.GetOptions()) != "\x00" {
		t.Errorf("%v", request)
	}
}

func TestDocumentsAreCached(t *testing.T) {
	t.Parallel()
	c := setup(t)
	client := c.client("admin")
	first := c.do(client, "GET", "/apis", "")
	if first.Header.Get("Etag") != `"0123"` || first.Header.Get("Vary") != "Accept" {
		t.Errorf("%v", first.Header)
	}
	second := c.do(client, "GET", "/apis", "", "If-None-Match: "+first.Header.Get("Etag"))
	if second.StatusCode != 304 || second.body != "" {
		t.Errorf("%d %q", second.StatusCode, second.body)
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	c := setup(t)
	client := c.client("admin")
	for i := range 40 {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m%d"},"data":{"x":%q}}`, i, strings.Repeat("x", 10_000))
		if got := c.do(client, "POST", "/api/v1/namespaces/a/configmaps", body); got.StatusCode != 201 {
			t.Fatalf("%d %s", got.StatusCode, got.body)
		}
	}
	plain := c.do(client, "GET", "/api/v1/configmaps", "")
	var list struct{ Items []any }
	if err := json.Unmarshal([]byte(plain.body), &list); err != nil || len(list.Items) != 40 {
		t.Fatalf("%d items: %v", len(list.Items), err)
	}
	compressed := c.do(client, "GET", "/api/v1/configmaps", "", "Accept-Encoding: deflate, gzip")
	if compressed.Header.Get("Content-Encoding") != "gzip" || compressed.Header.Get("Vary") != "Accept-Encoding" || compressed.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v", compressed.Header)
	}
	if got := unzip(t, compressed.body); got != plain.body {
		t.Errorf("%d bytes, want %d", len(got), len(plain.body))
	}
	small := c.do(client, "GET", "/api/v1/namespaces/a/configmaps/m1", "", "Accept-Encoding: gzip")
	if small.Header.Get("Content-Encoding") != "" || small.Header.Get("Content-Length") == "" {
		t.Errorf("small answers travel as they are: %v", small.Header)
	}
	document := c.do(client, "GET", "/openapi/v2", "", "Accept-Encoding: gzip")
	if document.Header.Get("Content-Encoding") != "gzip" || !strings.HasPrefix(unzip(t, document.body), `{"swagger"`) {
		t.Errorf("%v", document.Header)
	}
}

func unzip(t *testing.T, text string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestWatchFrames(t *testing.T) {
	t.Parallel()
	for name, setup := range setups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
				client := c.client("admin")
				if proto == "HTTP/1.1" {
					client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
				}
				name := strings.ToLower(strings.NewReplacer("/", "-", ".", "-").Replace(proto))
				req, _ := http.NewRequestWithContext(t.Context(), "GET", c.url+"/api/v1/namespaces/"+name+"/configmaps?watch=true", nil)
				resp, err := client.Do(req) // returns with the headers, before any event
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if resp.Proto != proto || resp.Header.Get("Content-Type") != "application/json" || resp.ContentLength != -1 {
					t.Errorf("%s: %s %v", proto, resp.Proto, resp.Header)
				}
				if proto == "HTTP/1.1" && !slices.Equal(resp.TransferEncoding, []string{"chunked"}) {
					t.Errorf("%v", resp.TransferEncoding)
				}
				body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}`
				c.do(client, "POST", "/api/v1/namespaces/"+name+"/configmaps", body)
				line, err := bufio.NewReader(resp.Body).ReadString('\n')
				if err != nil || !strings.HasPrefix(line, `{"type":"ADDED","object":{"apiVersion":"v1"`) || !strings.HasSuffix(line, "}}\n") {
					t.Errorf("%s: %q %v", proto, line, err)
				}
			}
			got := c.do(c.client("admin"), "GET", "/api/v1/configmaps?watch=true&timeoutSeconds=1&resourceVersion=5", "", "Accept: application/vnd.kubernetes.protobuf;stream=watch")
			if got.Header.Get("Content-Type") != "application/vnd.kubernetes.protobuf;stream=watch" || got.body != "" {
				t.Errorf("%v %q", got.Header, got.body)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	c := setup(t)
	seen := make(chan metadata.MD, 1)
	c.Before = func(_ string, md metadata.MD) error {
		seen <- md
		if slices.Equal(md.Get("howdah-user"), []string{"system:anonymous"}) {
			return apierrors.NewUnauthorized("Unauthorized")
		}
		return nil
	}
	tests := []struct {
		name, role, token string
		user              string
		groups            []string
		code              int
	}{
		{"certificate", "admin", "", "kubernetes-admin", []string{"system:masters"}, 404},
		{"node", "node1", "", "system:node:node1", []string{"system:nodes"}, 404},
		{"token", "", "t", "", nil, 404},
		{"nobody", "", "", "system:anonymous", []string{"system:unauthenticated"}, 401},
	}
	for _, tt := range tests {
		headers := []string{"Howdah-User: root", "Howdah-Group: system:masters", "Grpc-Metadata-Howdah-User: root", "Howdah-Fence: scheduler/9", "Grpc-Timeout: 1n"}
		if tt.token != "" {
			headers = append(headers, "Authorization: Bearer "+tt.token)
		}
		got := c.do(c.client(tt.role), "GET", "/api/v1/pods/x", "", headers...)
		md := <-seen
		var user string
		if u := md.Get("howdah-user"); len(u) == 1 {
			user = u[0]
		} else if len(u) > 1 {
			t.Errorf("%s: %v", tt.name, u)
		}
		if got.StatusCode != tt.code || user != tt.user || !slices.Equal(md.Get("howdah-group"), tt.groups) || len(md.Get("howdah-fence")) > 0 {
			t.Errorf("%s: %d %v", tt.name, got.StatusCode, md)
		}
		if tt.token != "" && !slices.Equal(md.Get("authorization"), []string{"Bearer t"}) {
			t.Errorf("%s: %v", tt.name, md)
		}
	}
}

func TestForeignCertificateIsRefused(t *testing.T) {
	t.Parallel()
	c, other := setup(t), setup(t)
	client := other.client("admin")
	config := client.Transport.(*http.Transport).TLSClientConfig
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AddCert(c.pki.Certificate)
	resp, err := client.Get(c.url + "/version")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a certificate of another cluster got %d", resp.StatusCode)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.Warning = `spec.x: deprecated "y"`
	want := `299 - "spec.x: deprecated \"y\""`
	for _, path := range []string{"/api/v1/namespaces/a/pods/x", "/api/v1/pods", "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=5",
		"/api/v1/namespaces/default/pods/p/proxy/x", "/api/v1/namespaces/default/pods/missing/exec?command=x"} {
		if got := c.do(c.client("admin"), "GET", path, ""); !slices.Equal(got.Header.Values("Warning"), []string{want}) {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	release := make(chan struct{})
	c := setup(t, func(config *gateway.Config) { config.MaxInFlight = 1 })
	c.Before = func(method string, _ metadata.MD) error {
		if method == "Get" {
			entered <- struct{}{}
			<-release
		}
		return nil
	}
	client := c.client("admin")
	done := make(chan int, 1)
	go func() { done <- c.do(client, "GET", "/api/v1/nodes/n", "").StatusCode }()
	<-entered
	busy := c.do(client, "GET", "/api/v1/nodes/n", "")
	if busy.StatusCode != 429 || busy.Header.Get("Retry-After") != "1" || busy.Header.Get("Content-Type") != "text/plain; charset=utf-8" ||
		busy.body != "Too many requests, please try again later.\n" {
		t.Errorf("%d %v %s", busy.StatusCode, busy.Header, busy.body)
	}
	if got := c.do(client, "GET", "/readyz", ""); got.StatusCode != 200 {
		t.Errorf("health: %d", got.StatusCode)
	}
	if got := c.do(client, "GET", "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=5", ""); got.StatusCode != 200 {
		t.Errorf("watch: %d", got.StatusCode)
	}
	close(release)
	if code := <-done; code != 404 {
		t.Errorf("%d", code)
	}
}

func TestHealthThatFails(t *testing.T) {
	t.Parallel()
	c := setup(t)
	c.Before = func(string, metadata.MD) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError, Message: "[-]store failed: reason withheld\nreadyz check failed"}}
	}
	got := c.do(c.client(""), "GET", "/readyz", "")
	if got.StatusCode != 500 || got.body != "[-]store failed: reason withheld\nreadyz check failed\n" || got.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %q %v", got.StatusCode, got.body, got.Header)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	c := setup(t)
	release := make(chan struct{})
	c.Before = func(string, metadata.MD) error { <-release; return errors.New("late") }
	defer close(release)
	got := c.do(c.client("admin"), "GET", "/api/v1/nodes/n?timeout=50ms", "")
	if got.StatusCode != 504 || !strings.Contains(got.body, `"reason":"Timeout"`) {
		t.Errorf("%d %s", got.StatusCode, got.body)
	}
}

// TestBodyThatStalls asserts that a request does not wait longer for its body than for anything else.
func TestBodyThatStalls(t *testing.T) {
	t.Parallel()
	c := setup(t)
	body, stalled := io.Pipe()
	t.Cleanup(func() { _ = stalled.Close() })
	go func() { _, _ = io.WriteString(stalled, "{") }()
	req, err := http.NewRequestWithContext(t.Context(), "POST", c.url+"/api/v1/namespaces/a/pods?timeout=50ms", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.client("admin").Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != 504 {
		t.Errorf("%s %s", resp.Proto, resp.Status)
	}
}

// TestStop asserts that streams end at once and cleanly where the gateway stops.
func TestStop(t *testing.T) {
	t.Parallel()
	for name, setup := range setups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t, func(config *gateway.Config) { config.StopTimeout = 10 * time.Second })
			client := c.client("admin")
			body := c.watch(t.Context(), client, "/api/v1/pods?watch=1")
			follow := c.watch(t.Context(), client, "/api/v1/namespaces/a/pods/p/log?follow=true")
			c.stop()
			if data, err := io.ReadAll(body); err != nil || len(data) != 0 {
				t.Errorf("watch: %q %v", data, err)
			}
			if _, err := io.ReadAll(follow); err == nil {
				t.Error("a log whose end has not come must break off")
			}
			c.awaitEnd("Connect", "Watch")
		})
	}
}

// TestWatchEndsWithItsClient asserts that the watch behind ends when the client goes.
func TestWatchEndsWithItsClient(t *testing.T) {
	t.Parallel()
	for name, setup := range setups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			ctx, cancel := context.WithCancel(t.Context())
			body := c.watch(ctx, c.client("admin"), "/api/v1/pods?watch=1")
			cancel()
			_ = body.Close()
			c.awaitEnd("Watch")
		})
	}
}

// TestListThatBreaksOff asserts that nobody takes a part of a list for the whole.
func TestListThatBreaksOff(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1000, 1 << 20} {
		conn := dialServer(t, func(server *rpc.Server) { apiv1.RegisterObjectServiceServer(server, brokenList{size: size}) })
		c := setup(t, func(config *gateway.Config) { config.APIServer = conn })
		resp, err := c.client("admin").Get(c.url + "/api/v1/pods")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		switch {
		case size == 1000 && (err != nil || resp.StatusCode != 500 || !strings.Contains(string(data), "lost the rest")):
			t.Errorf("what is held back can still be an error: %d %s %v", resp.StatusCode, data, err)
		case size > 1000 && err == nil:
			t.Errorf("%d bytes pass for the whole", len(data))
		}
	}
}

type brokenList struct {
	apiv1.UnimplementedObjectServiceServer
	size int
}

func (b brokenList) List(_ *apiv1.ListRequest, stream apiv1.ObjectService_ListServer) error {
	if err := stream.Send(&apiv1.ListResponse{Object: make([]byte, b.size), ContentType: "application/json"}); err != nil {
		return err
	}
	return apierrors.NewInternalError(errors.New("lost the rest"))
}
