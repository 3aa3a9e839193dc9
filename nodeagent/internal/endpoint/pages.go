package endpoint

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/zpages"
)

// served are the paths that /statusz names.
var served = []string{
	"/attach", "/checkpoint", "/configz", "/containerLogs", "/debug/pprof", "/exec", "/flagz", "/healthz", "/logs", "/metrics", "/metrics/cadvisor",
	"/metrics/probes", "/metrics/resource", "/metrics/slis", "/pods", "/portForward", "/run", "/runningpods", "/stats", "/statusz",
}

func (s *Server) flags(w http.ResponseWriter, r *http.Request) {
	servePage(w, r, zpages.Flags("kubelet", s.cfg.Flags))
}

func (s *Server) statusPage(w http.ResponseWriter, r *http.Request) {
	major, rest, _ := strings.Cut(strings.TrimPrefix(s.cfg.Version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	servePage(w, r, zpages.Status(zpages.Running{
		Component: "kubelet", Began: s.began, Binary: s.cfg.Version, Emulation: major + "." + minor, Paths: served,
	}, s.cfg.Clock.Now()))
}

func servePage(w http.ResponseWriter, r *http.Request, page zpages.Page) {
	page.Serve(w, r, func(status metav1.Status) { refuse(w, int(status.Code), status.Message) })
}

// slis has the outcomes of the health checks that were asked for; DELETE forgets them.
func (s *Server) slis() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.checks)
	shown := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			s.checks.Reset()
			plain(w, http.StatusOK, "metrics reset\n")
			return
		}
		shown.ServeHTTP(w, r)
	})
}
