// Package zpages has the pages on which a component tells of itself, Kubernetes' /flagz and /statusz: text for people, and objects of the group
// config.k8s.io for those who name their kind in the Accept header.
package zpages

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// The media types of the objects; their parameters name the kind.
const (
	typeJSON = "application/json"
	typeYAML = "application/yaml"
)

// group is that of the objects, versions those that they have, each with what it warns of.
const group = "config.k8s.io"

var versions = map[string]string{"v1beta1": "", "v1alpha1": "This version of the %s endpoint is deprecated. Please use a newer version."}

// warning is what Kubernetes says of such pages.
const warning = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only."

// Page is what a component tells.
type Page struct {
	component, kind, text string
	fields                map[string]any
}

// Flags is the page /flagz of a component with its settings, each "name=value", without secrets.
func Flags(component string, settings []string) Page {
	lines := make([]string, 0, len(settings))
	flags := map[string]string{}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		flags[name] = value
		lines = append(lines, name+": "+value)
	}
	slices.Sort(lines)
	return Page{
		component: component, kind: "Flagz", fields: map[string]any{"flags": flags},
		text: fmt.Sprintf("\n%s flagz\n%s\n%s\n", component, warning, strings.Join(lines, "\n")),
	}
}

// Running is a process that serves.
type Running struct {
	Component string
	Began     time.Time
	// Binary is its version, as "v1.36.3"; Emulation that of the API which it serves, as "1.36".
	Binary, Emulation string
	// Paths are what it serves, in order.
	Paths []string
}

// Status is the page /statusz of a process at a time.
func Status(r Running, now time.Time) Page {
	began, up := r.Began.UTC(), now.Sub(r.Began)
	return Page{
		component: r.Component, kind: "Statusz",
		text: fmt.Sprintf("\n%s statusz\n%s\n\nStarted= %s\nUp= %d hr %02d min %02d sec\nGo version= %s\nBinary version= %s\nEmulation version= %s\nPaths= %s\n",
			r.Component, warning, began.Format(time.UnixDate), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60, runtime.Version(),
			r.Binary, r.Emulation, strings.Join(r.Paths, " ")),
		fields: map[string]any{
			"startTime": began.Format(time.RFC3339), "uptimeSeconds": int64(up.Seconds()), "goVersion": runtime.Version(),
			"binaryVersion": r.Binary, "emulationVersion": r.Emulation, "paths": r.Paths,
		},
	}
}

// Serve answers in the first form of the Accept header that there is; refuse answers where there is none.
func (p Page) Serve(w http.ResponseWriter, r *http.Request, refuse func(metav1.Status)) {
	for accepted := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		media, parameters, err := mime.ParseMediaType(accepted)
		switch {
		case strings.TrimSpace(accepted) == "" || err == nil && (media == "*/*" || media == "text/*" || media == "text/plain"):
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(w, p.text) // an error means that the client has gone
			return
		case err == nil && (media == typeJSON || media == typeYAML) && p.meant(parameters):
			p.serveObject(w, media, parameters["v"])
			return
		}
	}
	refuse(metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotAcceptable, Code: http.StatusNotAcceptable,
		Message: "only the following media types are accepted: application/json, application/yaml, text/plain",
	})
}

// meant reports whether a media type's parameters name the page's object.
func (p Page) meant(parameters map[string]string) bool {
	_, served := versions[parameters["v"]]
	return parameters["as"] == p.kind && parameters["g"] == group && served
}

func (p Page) serveObject(w http.ResponseWriter, media, version string) {
	object := map[string]any{
		"kind": p.kind, "apiVersion": group + "/" + version, "metadata": map[string]string{"name": p.component},
	}
	maps.Copy(object, p.fields)
	body, _ := json.Marshal(object) // texts and numbers alone
	if media == typeYAML {
		body, _ = yaml.JSONToYAML(body)
	}
	if warning := versions[version]; warning != "" {
		w.Header().Add("Warning", fmt.Sprintf("299 - %q", fmt.Sprintf(warning, strings.ToLower(p.kind))))
	}
	w.Header().Set("Content-Type", media+";g="+group+";v="+version+";as="+p.kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}
