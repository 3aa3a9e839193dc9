package openapi

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
)

// parameter is a part of a path or a query, or a body.
type parameter struct {
	name, description, dataType string
	kind                        common.ParameterKind
	required                    bool
}

func (p parameter) Name() string               { return p.name }
func (p parameter) Description() string        { return p.description }
func (p parameter) Required() bool             { return p.required }
func (p parameter) Kind() common.ParameterKind { return p.kind }
func (p parameter) DataType() string           { return p.dataType }
func (p parameter) AllowMultiple() bool        { return false }

func inPath(name, description string) parameter {
	return parameter{name, description, "string", common.PathParameterKind, true}
}

// described are Go types with the texts of their fields.
type described interface{ SwaggerDoc() map[string]string }

// options are the query parameters that the fields of a type with options make, but for some.
func options(of described, without ...string) []parameter {
	texts, t := of.SwaggerDoc(), reflect.TypeOf(of)
	var out []parameter
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		dataType, ok := dataType(field.Type)
		if name == "" || !ok || slices.Contains(without, name) {
			continue
		}
		out = append(out, parameter{name, texts[name], dataType, common.QueryParameterKind, false})
	}
	return out
}

// dataType is the type of a parameter that a field makes; a structure makes none.
func dataType(t reflect.Type) (string, bool) {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice { // many are given one by one
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "string", true
	case reflect.Bool:
		return "boolean", true
	case reflect.Int32, reflect.Int64:
		return "integer", true
	}
	return "", false
}

var (
	pretty = parameter{
		"pretty", "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or command-line HTTP tool (curl and wget).",
		"string", common.QueryParameterKind, false,
	}
	namespaceParameter = inPath("namespace", "object name and auth scope, such as for teams and projects")
	pathParameter      = inPath("path", "path to the resource")

	listOptions   = options(metav1.ListOptions{})
	createOptions = options(metav1.CreateOptions{})
	updateOptions = options(metav1.UpdateOptions{})
	patchOptions  = options(metav1.PatchOptions{})
	getOptions    = options(metav1.GetOptions{})
	deleteOptions = options(metav1.DeleteOptions{})
	// collectionOptions choose what of a collection is deleted.
	collectionOptions = options(metav1.ListOptions{}, "watch", "allowWatchBookmarks")

	logOptions     = options(corev1.PodLogOptions{}, "sinceTime")
	execOptions    = options(corev1.PodExecOptions{})
	attachOptions  = options(corev1.PodAttachOptions{})
	forwardOptions = options(corev1.PodPortForwardOptions{})
	podProxy       = options(corev1.PodProxyOptions{})
	nodeProxy      = options(corev1.NodeProxyOptions{})
	serviceProxy   = options(corev1.ServiceProxyOptions{})
)
