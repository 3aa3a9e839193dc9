package remote

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
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
	client, err := New(Config{Kubeconfig: path, Version: authenticationv1.SchemeGroupVersion, Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// review is what is asked, and answered.
const review = `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{"token":"t"},"status":{"user":{}}}`

func question() *authenticationv1.TokenReview {
	return &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "t"}}
}

func TestPost(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	var asked atomic.Int32
	c := serve(t, clk, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != "POST" || r.URL.String() != "/authorize?timeout=30s" || r.Header.Get("Authorization") != "Bearer for-the-webhook" || strings.TrimSpace(string(body)) != review {
			t.Errorf("%s %s %v\n%s", r.Method, r.URL, r.Header, body)
		}
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true}}`))
	})
	var answer authenticationv1.TokenReview
	var codes []int
	if err := post(t, clk, c, &answer, &codes); err != nil || !answer.Status.Authenticated || !slices.Equal(codes, []int{500, 200}) {
		t.Error(err, answer, codes)
	}
}

// post asks, and moves the clock on where the client waits.
func post(t *testing.T, clk *clocktesting.FakeClock, c *Client, answer *authenticationv1.TokenReview, codes *[]int) error {
	done := make(chan error, 1)
	go func() {
		done <- c.Post(t.Context(), question(), answer, func(try Try) { *codes = append(*codes, try.Code) })
	}()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(time.Millisecond):
			if clk.HasWaiters() {
				clk.Step(time.Minute)
			}
		}
	}
}

func TestBadAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		code  int
		body  string
		want  string
		tries int
	}{
		{"refused", http.StatusForbidden, "", "unknown", 1},
		{"a Status", http.StatusForbidden, `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"no way","code":403}`, "no way", 1},
		{"no JSON", http.StatusOK, "<html>", "couldn't get version/kind", 1},
		{"nothing", http.StatusOK, "", "0-length response with status code: 200", 1},
		{"no kind", http.StatusOK, `{"status":{"authenticated":true}}`, "", 1},
		{"another kind", http.StatusOK, `{"apiVersion":"v1","kind":"Pod"}`, "converting (v1.Pod) to (v1.TokenReview): unknown conversion", 1},
		{"another version", http.StatusOK, strings.Replace(review, "io/v1", "io/v9", 1), `no kind "TokenReview" is registered for version "authentication.k8s.io/v9"`, 1},
		{"gone for long", http.StatusBadGateway, "", `an error on the server ("unknown") has prevented the request from succeeding`, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clk := clocktesting.NewFakeClock(time.Unix(1e9, 0))
			client := serve(t, clk, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			})
			var answer authenticationv1.TokenReview
			var codes []int
			err := post(t, clk, client, &answer, &codes)
			if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) || len(codes) != c.tries {
				t.Errorf("%v after %v", err, codes)
			}
		})
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
	var answer authenticationv1.TokenReview
	if err := c.Post(ctx, question(), &answer, func(Try) {}); err == nil {
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
		if _, err := New(Config{Kubeconfig: p, Version: authenticationv1.SchemeGroupVersion, Clock: clock.RealClock{}}); err == nil {
			t.Errorf("%s was read", p)
		}
	}
}
