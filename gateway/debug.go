package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"runtime"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/version"

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

// notParseable is what Kubernetes says of such pages.
const notParseable = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only."

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
	var lines []string
	flags := map[string]string{}
	for _, setting := range rt.config.Settings {
		name, value, _ := strings.Cut(setting, "=")
		flags[name] = value
		lines = append(lines, name+": "+value)
	}
	slices.Sort(lines)
	servePage(w, r, page{
		kind: "Flagz", text: fmt.Sprintf("\ngateway flagz\n%s\n%s\n", notParseable, strings.Join(lines, "\n")),
		fields: map[string]any{"flags": flags},
	})
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
	up := time.Since(rt.began)
	paths := []string{"/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"}
	if rt.config.Profiling {
		paths = append([]string{"/debug/pprof"}, paths...)
	}
	text := fmt.Sprintf("\ngateway statusz\n%s\n\nStarted= %s\nUp= %d hr %02d min %02d sec\nGo version= %s\nBinary version= %s\nEmulation version= %s.%s\nPaths= %s\n",
		notParseable, rt.began.UTC().Format(time.UnixDate), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60, runtime.Version(),
		v.GitVersion, v.Major, v.Minor, strings.Join(paths, " "))
	servePage(w, r, page{kind: "Statusz", text: text, fields: map[string]any{
		"startTime": rt.began.UTC().Format(time.RFC3339), "uptimeSeconds": int64(up.Seconds()), "goVersion": runtime.Version(),
		"binaryVersion": v.GitVersion, "emulationVersion": v.Major + "." + v.Minor, "paths": paths,
	}})
}
