package gateway

import (
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/gateway/internal/answer"
)

// page is what a component tells of itself, as Kubernetes' /flagz and /statusz: as text for people, and as an object of the group
// config.k8s.io for those who name its kind in the Accept header.
type page struct {
	kind, text string
	fields     map[string]any
}

// pageVersion is the group and version of the objects.
var pageVersion = map[string]string{"g": "config.k8s.io", "v": "v1beta1"}

// servePage answers in the first form of the Accept header that there is.
func servePage(w http.ResponseWriter, r *http.Request, p page) {
	for accepted := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		media, parameters, err := mime.ParseMediaType(accepted)
		switch {
		case strings.TrimSpace(accepted) == "" || err == nil && (media == "*/*" || media == "text/*" || media == "text/plain"):
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(w, p.text) // an error means that the client has gone
			return
		case err == nil && (media == answer.JSON || media == answer.YAML) && p.meant(parameters):
			p.serveObject(w, media)
			return
		}
	}
	answer.Status(w, r, metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotAcceptable, Code: http.StatusNotAcceptable,
		Message: "only the following media types are accepted: application/json, application/yaml, text/plain",
	})
}

// meant reports whether a media type's parameters name the page's object.
func (p page) meant(parameters map[string]string) bool {
	return parameters["as"] == p.kind && parameters["g"] == pageVersion["g"] && parameters["v"] == pageVersion["v"]
}

func (p page) serveObject(w http.ResponseWriter, media string) {
	object := map[string]any{
		"kind": p.kind, "apiVersion": pageVersion["g"] + "/" + pageVersion["v"], "metadata": map[string]string{"name": "gateway"},
	}
	maps.Copy(object, p.fields)
	body, _ := json.Marshal(object) // texts and numbers alone
	if media == answer.YAML {
		body, _ = yaml.JSONToYAML(body)
	}
	w.Header().Set("Content-Type", media+";g="+pageVersion["g"]+";v="+pageVersion["v"]+";as="+p.kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}
