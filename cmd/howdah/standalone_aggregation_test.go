package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/pgtest"
)

// extension is a small extension API server; a watch of it sends a line and stays open.
func extension(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/apis/metrics.example.com/v1":
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "metrics.example.com/v1",
			APIResources: []metav1.APIResource{{Name: "loads", SingularName: "load", Kind: "Load", Verbs: metav1.Verbs{"get", "list", "watch"}}},
		})
	case r.URL.Query().Get("watch") == "true":
		fmt.Fprintln(w, `{"type":"ADDED","object":{"kind":"Load","apiVersion":"metrics.example.com/v1"}}`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		certificate := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			certificate = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		fmt.Fprintf(w, `{"path":%q,"user":%q,"by":%q}`, r.URL.Path, r.Header.Get("X-Remote-User"), certificate)
	}
}

// TestStandaloneAggregation asks an extension API server through the gateway.
func TestStandaloneAggregation(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(extension))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer func() { server.CloseClientConnections(); server.Close() }()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	root := command()
	root.SetArgs([]string{"standalone", "--database-url", pgtest.New(t), "--listen", freePort(t), "--dir", dir, "--log-level", "warn", "--metrics-listen", ""})
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	defer func() { stop(); <-done }()
	client := connect(t, filepath.Join(dir, "admin", "kubeconfig"), done).CoreV1().RESTClient()
	post := func(path, body string) {
		t.Helper()
		if err := client.Post().AbsPath(path).Body([]byte(body)).SetHeader("Content-Type", "application/json").Do(ctx).Error(); err != nil {
			t.Fatal(err)
		}
	}
	post("/api/v1/namespaces/default/services", `{"kind":"Service","apiVersion":"v1","metadata":{"name":"metrics"},"spec":{"type":"ExternalName","externalName":"localhost"}}`)
	post("/apis/apiregistration.k8s.io/v1/apiservices", `{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":{"name":"v1.metrics.example.com"},
		"spec":{"group":"metrics.example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":10,"insecureSkipTLSVerify":true,
		"service":{"namespace":"default","name":"metrics","port":`+port+`}}}`)

	const path = "/apis/metrics.example.com/v1/loads/one"
	var raw []byte
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) { // until it is known and available
		if raw, err = client.Get().AbsPath(path).DoRaw(ctx); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v: %s", err, raw)
		}
	}
	if want := `{"path":"` + path + `","user":"kubernetes-admin","by":"howdah:apiserver"}`; string(raw) != want {
		t.Errorf("%s, want %s", raw, want)
	}
	if raw, err := client.Get().AbsPath("/apis/metrics.example.com/v1").DoRaw(ctx); err != nil || !strings.Contains(string(raw), `"name":"loads"`) {
		t.Errorf("its own document: %v %s", err, raw)
	}
	watch, err := client.Get().AbsPath("/apis/metrics.example.com/v1/loads").Param("watch", "true").Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	if line, err := bufio.NewReader(watch).ReadString('\n'); err != nil || !strings.Contains(line, "ADDED") {
		t.Errorf("watch: %q %v", line, err)
	}
}
