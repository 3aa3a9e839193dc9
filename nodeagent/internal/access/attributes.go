package access

import (
	"net/http"
	"strings"
)

// verbs are what requests are authorized as, by method; any other method has no verb, and only who may do everything may use it.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// fine are the paths whose own subresource is asked for first, and nodes/proxy after it.
var fine = []struct{ path, subresource string }{
	{"/pods", "pods"}, {"/runningpods", "pods"}, {"/healthz", "healthz"}, {"/configz", "configz"},
}

// own are the paths that have a subresource of their own, and no other way in.
var own = []struct{ path, subresource string }{
	{"/stats", "stats"}, {"/metrics", "metrics"}, {"/logs", "log"}, {"/checkpoint", "checkpoint"}, {"/statusz", "statusz"}, {"/flagz", "configz"},
}

// Subresources are those of nodes of which a caller needs one, in the order in which they are asked for: the kubelet's.
func Subresources(path string) []string {
	for _, o := range own {
		if within(path, o.path) {
			return []string{o.subresource}
		}
	}
	for _, f := range fine {
		if within(path, f.path) {
			return []string{f.subresource, "proxy"}
		}
	}
	return []string{"proxy"}
}

// within reports whether path is root or below it.
func within(path, root string) bool {
	rest, ok := strings.CutPrefix(path, root)
	return ok && (rest == "" || rest[0] == '/')
}
