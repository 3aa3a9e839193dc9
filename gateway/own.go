package gateway

import (
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/gateway/internal/identity"
)

// serveOwn serves the paths that the API server does not guard, and those that do not exist: for them, the gateway itself
// asks who calls, and whether that user may use the path.
func (rt *router) serveOwn(w http.ResponseWriter, r *http.Request, caller identity.Caller, md metadata.MD) {
	var told metadata.MD
	caller, err := rt.identity.Resolve(r.Context(), caller, &apiv1.Access{Verb: strings.ToLower(r.Method), Path: r.URL.Path}, grpc.Header(&told))
	answer.Classified(w.Header(), told)
	if err != nil {
		answer.Error(w, r, err)
		return
	}
	// Kubernetes answers every method alike there, but for the one that would reset its metrics; its API server has no /configz.
	answered := r.Method != http.MethodDelete
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/howdah/"):
		rt.roles.Serve(w, r, caller.Metadata())
	case path == "/metrics" && rt.config.Gatherer != nil && answered:
		rt.serveMetrics(w, r, md)
	case path == "/metrics/slis" && answered:
		rt.documents.Serve(w, r, md)
	case strings.HasPrefix(path, "/debug/pprof") && rt.config.Profiling:
		serveProfile(w, r)
	case (path == "/debug/flags" || strings.HasPrefix(path, "/debug/flags/")) && rt.config.Profiling && rt.config.LogLevel != nil:
		rt.serveLogLevel(w, r)
	case path == "/configz" && answered:
		rt.serveConfig(w)
	case path == "/flagz":
		rt.serveFlags(w, r)
	case path == "/statusz":
		rt.serveStatus(w, r, md)
	default:
		answer.Status(w, r, answer.PageNotFound())
	}
}
