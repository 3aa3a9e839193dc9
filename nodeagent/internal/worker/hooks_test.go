package worker

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/probe"
)

// TestHooksFallBackToHTTP: a hook that says HTTPS, which once meant nothing, is asked in plain text where the server knows nothing else, but is not
// told a password then.
func TestHooksFallBackToHTTP(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serve  func(http.Handler) *httptest.Server
		scheme corev1.URIScheme
		told   bool // of the fall back
		secret bool // whether the server is told
	}{
		"TLS":                     {httptest.NewTLSServer, corev1.URISchemeHTTPS, false, true},
		"plain text":              {httptest.NewServer, corev1.URISchemeHTTP, false, true},
		"plain text in TLS' name": {httptest.NewServer, corev1.URISchemeHTTPS, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			server := c.serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.Header.Get("Authorization")) }))
			at, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			address := netip.MustParseAddrPort(at.Host)
			registry := prometheus.NewRegistry()
			world := newWorld(t)
			hooked := &worker{cfg: &Config{Events: world, Metrics: NewMetrics(registry, clock.RealClock{})}}
			err = hooked.get(t.Context(), &corev1.HTTPGetAction{
				Scheme: c.scheme, Path: "/", Port: intstr.FromInt32(int32(address.Port())), HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: "secret"}},
			}, probe.Target{Pod: newPod("p", "a"), Container: &corev1.Container{Name: "a"}, PodIP: address.Addr().String()})
			server.Close()
			if err != nil || len(got) != 1 || (got[0] == "secret") != c.secret {
				t.Errorf("error %v, the server was told %q", err, got)
			}
			want := "LifecycleHTTPFallback: request to HTTPS lifecycle hook " + at.Host + " got HTTP response, retry with HTTP succeeded"
			if told := strings.Contains(strings.Join(world.events, "\n"), want); told != c.told {
				t.Errorf("events are %q", world.events)
			}
			if n := series(t, registry, "kubelet_lifecycle_handler_http_fallbacks_total"); n > 0 != c.told {
				t.Errorf("counted %v", n)
			}
		})
	}
}
