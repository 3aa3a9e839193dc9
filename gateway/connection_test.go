package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"

	"howdah.dev/gateway"
)

func TestStrictTransportSecurity(t *testing.T) {
	t.Parallel()
	plain, strict := setup(t), setup(t, func(config *gateway.Config) {
		config.Connections.StrictTransportSecurity = []string{"max-age=31536000", "includeSubDomains"}
	})
	for _, path := range []string{"/api/v1/pods/x", "/version", "/nothing"} {
		if got := plain.do(plain.client("admin"), "GET", path, "").Header.Values("Strict-Transport-Security"); len(got) > 0 {
			t.Errorf("%s: %q unasked", path, got)
		}
		if got := strict.do(strict.client("admin"), "GET", path, "").Header.Get("Strict-Transport-Security"); got != "max-age=31536000; includeSubDomains" {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// TestGoaway has clients connect anew after each request where the chance is one.
func TestGoaway(t *testing.T) {
	t.Parallel()
	for chance, want := range map[float64]int{0: 1, 1: 3} {
		c := setup(t, func(config *gateway.Config) { config.Connections.GoawayChance = chance })
		client, connections := c.client("admin"), 0
		for range 3 {
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
				if !i.Reused {
					connections++
				}
			}})
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/api/v1/pods/x", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.ProtoMajor != 2 {
				t.Fatal(response.Proto)
			}
		}
		if connections != want {
			t.Errorf("with the chance %v, %d connections", chance, connections)
		}
	}
}
