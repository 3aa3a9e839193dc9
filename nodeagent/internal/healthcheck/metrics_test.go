package healthcheck

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/lb"
)

func TestAnswersForTheNodeAreCounted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		healthy        bool
		node           *corev1.Node
		healthz, livez string
	}{
		"it balances and stays":         {healthy: true, node: &corev1.Node{}, healthz: "200", livez: "200"},
		"it balances and is to leave":   {healthy: true, healthz: "503", livez: "200"},
		"it is not as the objects say":  {node: &corev1.Node{}, healthz: "503", livez: "503"},
		"it neither balances nor stays": {healthz: "503", livez: "503"},
	} {
		s := New(Config{
			Health: func() lb.Health { return lb.Health{Healthy: c.healthy, Written: time.Unix(1000, 0)} }, Node: func() *corev1.Node { return c.node },
			Clock: clock.RealClock{}, Metrics: prometheus.NewRegistry(),
		})
		for _, path := range []string{"/healthz", "/livez", "/livez"} {
			s.node().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
		}
		if n := testutil.ToFloat64(s.healthz.WithLabelValues(c.healthz)); n != 1 {
			t.Errorf("%s: %v answers %s at /healthz", name, n, c.healthz)
		}
		if n := testutil.ToFloat64(s.livez.WithLabelValues(c.livez)); n != 2 {
			t.Errorf("%s: %v answers %s at /livez", name, n, c.livez)
		}
	}
}
