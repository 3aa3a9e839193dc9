package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/kit/zpages"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// profiles are those that are made while the caller waits; all others are pprof.Index's.
var profiles = map[string]http.HandlerFunc{
	"cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
}

// serveProfile answers /debug/pprof/ with profiles of this process.
func serveProfile(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/debug/pprof" {
		http.Redirect(w, r, "/debug/pprof/", http.StatusFound)
		return
	}
	if handler, ok := profiles[strings.TrimPrefix(r.URL.Path, "/debug/pprof/")]; ok {
		handler(w, r)
		return
	}
	pprof.Index(w, r)
}

// serveConfig answers /configz with the gateway's settings.
func (rt *router) serveConfig(w http.ResponseWriter) {
	settings := map[string]string{}
	for _, setting := range rt.config.Settings {
		name, value, _ := strings.Cut(setting, "=")
		settings[name] = value
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(map[string]map[string]string{"gateway": settings}) // an error means that the client has gone
}

// serveFlags answers /flagz.
func (rt *router) serveFlags(w http.ResponseWriter, r *http.Request) {
	servePage(w, r, zpages.Flags("gateway", rt.config.Settings))
}

// serveStatus answers /statusz.
func (rt *router) serveStatus(w http.ResponseWriter, r *http.Request, md metadata.MD) {
	var v version.Info
	resp, err := rt.discovery.Document(metadata.NewOutgoingContext(r.Context(), md), &apiv1.DocumentRequest{Path: "/version"})
	if err == nil {
		err = json.Unmarshal(resp.GetObject(), &v)
	}
	if err != nil {
		v.GitVersion = "unknown: " + err.Error()
	}
	paths := []string{"/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"}
	if rt.config.Profiling {
		paths = append([]string{"/debug/pprof"}, paths...)
	}
	servePage(w, r, zpages.Status(zpages.Running{
		Component: "gateway", Began: rt.began, Binary: v.GitVersion, Emulation: v.Major + "." + v.Minor, Paths: paths,
	}, time.Now()))
}

func servePage(w http.ResponseWriter, r *http.Request, page zpages.Page) {
	page.Serve(w, r, func(s metav1.Status) { answer.Status(w, r, s) })
}
