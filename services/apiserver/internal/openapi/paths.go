package openapi

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

var (
	scaleGVK    = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	evictionGVK = schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}
	tokenGVK    = schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}
	statusGVK   = schema.GroupVersionKind{Version: "v1", Kind: "Status"}
)

// others are the kinds that are no resources.
var others = []struct {
	gvk schema.GroupVersionKind
	obj any
}{
	{scaleGVK, autoscalingv1.Scale{}},
	{evictionGVK, policyv1.Eviction{}},
	{tokenGVK, authenticationv1.TokenRequest{}},
	{statusGVK, metav1.Status{}},
}

// operation is what one HTTP method does at a path.
type operation struct {
	method, action, id string
	gvk                schema.GroupVersionKind // what it is about
	request, response  schema.GroupVersionKind
	patch              bool
	parameters         []parameter
}

// path is a URL with its operations.
type path struct {
	path       string
	parameters []parameter
	operations []operation
}

// parameter is a query parameter, or a part of the path.
type parameter struct {
	name, kind, in, description string
}

var (
	pretty          = parameter{"pretty", "string", "query", "If 'true', then the output is pretty printed."}
	dryRun          = parameter{"dryRun", "string", "query", "When present, indicates that modifications should not be persisted; the only valid value is All."}
	fieldManager    = parameter{"fieldManager", "string", "query", "The name of the actor that makes these changes, at most 128 printable characters."}
	fieldValidation = parameter{"fieldValidation", "string", "query", "What becomes of unknown or duplicate fields: Ignore, Warn (the default) or Strict."}
	force           = parameter{"force", "boolean", "query", "Takes over conflicting fields of other managers; for apply patches only."}
	listParameters  = []parameter{
		{"allowWatchBookmarks", "boolean", "query", "Asks for BOOKMARK events."},
		{"continue", "string", "query", "The token of the page before."},
		{"fieldSelector", "string", "query", "Restricts the objects by their fields."},
		{"labelSelector", "string", "query", "Restricts the objects by their labels."},
		{"limit", "integer", "query", "The most objects that one page has."},
		{"resourceVersion", "string", "query", "Which state the answer may be from."},
		{"resourceVersionMatch", "string", "query", "How resourceVersion is applied: Exact or NotOlderThan."},
		{"sendInitialEvents", "boolean", "query", "Begins a watch with the present state."},
		{"timeoutSeconds", "integer", "query", "Ends the call after so long."},
		{"watch", "boolean", "query", "Watches for changes instead of listing."},
	}
	deleteParameters = []parameter{
		dryRun,
		{"gracePeriodSeconds", "integer", "query", "The time before the object goes; zero is at once."},
		{"orphanDependents", "boolean", "query", "Deprecated: use propagationPolicy."},
		{"propagationPolicy", "string", "query", "What becomes of dependents: Orphan, Background or Foreground."},
	}
	writeParameters = []parameter{dryRun, fieldManager, fieldValidation}
	nameParameter   = parameter{"name", "string", "path", "name of the object"}
	spaceParameter  = parameter{"namespace", "string", "path", "object name and auth scope, such as for teams and projects"}
)

// pathsOf returns every path of a resource.
func pathsOf(r *registry.Resource) []path {
	root := "/apis/" + r.GVK.GroupVersion().String()
	if r.GVK.Group == "" {
		root = "/api/" + r.GVK.Version
	}
	scoped, space := root, ""
	var parameters []parameter
	if r.Kind.Namespaced {
		scoped, space = root+"/namespaces/{namespace}", "Namespaced"
		parameters = append(parameters, spaceParameter)
	}
	scoped += "/" + r.Kind.Resource
	gv := r.GVK.GroupVersion()
	id := gv
	if r.Kind.Custom != nil { // the whole group: those of custom kinds are alike in their first part
		id.Group = camel(gv.Group)
	}
	list := gv.WithKind(r.ListKind)
	what := space + r.GVK.Kind
	options := gv.WithKind("DeleteOptions")
	collection := path{scoped, parameters, []operation{
		{method: "get", action: "list", id: operationID("list", id, what), gvk: r.GVK, response: list, parameters: listParameters},
		{method: "post", action: "post", id: operationID("create", id, what), gvk: r.GVK, request: r.GVK, response: r.GVK, parameters: writeParameters},
		{method: "delete", action: "deletecollection", id: operationID("deleteCollection", id, what), gvk: r.GVK, request: options, response: statusGVK,
			parameters: append(append([]parameter{}, listParameters...), deleteParameters...)},
	}}
	named := append(append([]parameter{}, parameters...), nameParameter)
	one := path{scoped + "/{name}", named, append(objectOperations(r, id, what),
		operation{method: "delete", action: "delete", id: operationID("delete", id, what), gvk: r.GVK, request: options, response: statusGVK, parameters: deleteParameters})}
	paths := []path{collection, one}
	if r.Kind.Namespaced {
		paths = append(paths, path{root + "/" + r.Kind.Resource, nil, []operation{{
			method: "get", action: "list", id: operationID("list", id, r.GVK.Kind+"ForAllNamespaces"), gvk: r.GVK, response: list, parameters: listParameters,
		}}})
	}
	return append(paths, subpaths(r, scoped+"/{name}/", named, id, what)...)
}

func objectOperations(r *registry.Resource, gv schema.GroupVersion, what string) []operation {
	return []operation{
		{method: "get", action: "get", id: operationID("read", gv, what), gvk: r.GVK, response: r.GVK},
		{method: "put", action: "put", id: operationID("replace", gv, what), gvk: r.GVK, request: r.GVK, response: r.GVK, parameters: writeParameters},
		{method: "patch", action: "patch", id: operationID("patch", gv, what), gvk: r.GVK, patch: true, response: r.GVK,
			parameters: append([]parameter{force}, writeParameters...)},
	}
}

func subpaths(r *registry.Resource, base string, named []parameter, gv schema.GroupVersion, what string) []path {
	var paths []path
	if r.Kind.Status != nil {
		paths = append(paths, path{base + "status", named, objectOperations(r, gv, what+"Status")})
	}
	for name := range r.Kind.Writes {
		paths = append(paths, path{base + name, named, objectOperations(r, gv, what+title(name))})
	}
	if r.Kind.Scale != nil {
		scale := *r
		scale.GVK = scaleGVK
		paths = append(paths, path{base + "scale", named, objectOperations(&scale, gv, what+"Scale")})
	}
	post := func(name string, body schema.GroupVersionKind) {
		paths = append(paths, path{base + name, named, []operation{{
			method: "post", action: "post", id: operationID("create", gv, what+title(name)), gvk: body, request: body, response: body, parameters: writeParameters,
		}}})
	}
	for name, a := range r.Kind.Actions {
		post(name, a.GVK)
	}
	switch {
	case r.GVK.Group == "" && r.Kind.Resource == "pods":
		post("eviction", evictionGVK)
	case r.GVK.Group == "" && r.Kind.Resource == "serviceaccounts":
		post("token", tokenGVK)
	}
	return paths
}
