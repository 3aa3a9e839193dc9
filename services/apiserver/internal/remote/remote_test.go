package remote

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

func serve(t *testing.T, clk clock.Clock, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{
		Server:                   server.URL + "/authorize",
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "for-the-webhook"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "webhook")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	client, err := New(path, clk)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestPost(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	c := serve(t, clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" || r.URL.String() != "/authorize" || r.Header.Get("Authorization") != "Bearer for-the-webhook" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"a":"b"}`))
	})
	var answer map[string]string
	if err := c.Post(t.Context(), map[string]string{"q": "?"}, &answer); err != nil || answer["a"] != "b" || asked.Load() != 2 {
		t.Error(err, answer, asked.Load())
	}
}

func TestBadAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code  int
		body  string
		want  string
		tries int32
	}{
		{http.StatusForbidden, "", "unknown", 1},
		{http.StatusOK, "<html>", "the webhook's answer", 1},
		{http.StatusBadGateway, "", `an error on the server ("unknown") has prevented the request from succeeding`, 5},
	} {
		var asked atomic.Int32
		clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
		client := serve(t, clk, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(c.code)
			_, _ = w.Write([]byte(c.body))
		})
		done := make(chan error, 1)
		go func() { var answer struct{}; done <- client.Post(t.Context(), struct{}{}, &answer) }()
		var err error
		for waiting := true; waiting; {
			select {
			case err = <-done:
				waiting = false
			case <-time.After(time.Millisecond):
				if clk.HasWaiters() {
					clk.Step(time.Minute)
				}
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || asked.Load() != c.tries {
			t.Errorf("%d: %v after %d", c.code, err, asked.Load())
		}
	}
}

// TestEnd ends the question while the service hangs.
func TestEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, clock.RealClock{}, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server see the client go
		cancel()
		<-r.Context().Done()
	})
	var answer struct{}
	if err := c.Post(ctx, struct{}{}, &answer); err == nil {
		t.Error("no error")
	}
}

func TestBadFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, "/nonexistent"} {
		if _, err := New(p, clock.RealClock{}); err == nil {
			t.Errorf("%s was read", p)
		}
	}
}
