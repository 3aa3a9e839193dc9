// Package request resolves what an HTTP request asks of the Kubernetes API:
// verb, group, version, namespace, resource, name and subresource, and the
// options of its query. It is pure.
package request

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Verbs of the API.
const (
	Get              = "get"
	List             = "list"
	Watch            = "watch"
	Create           = "create"
	Update           = "update"
	Patch            = "patch"
	Delete           = "delete"
	DeleteCollection = "deletecollection"
	Connect          = "connect"
)

// Info is what a request asks for. The zero Info is no resource request.
type Info struct {
	// Verb is one of the constants; empty where the method does not go with
	// the path (405).
	Verb        string
	Group       string // empty is the core group
	Version     string
	Namespace   string
	Resource    string
	Name        string
	Subresource string
	// Path is what follows the subresource, escaped and without its slash; only proxies take one, and custom resources pass over it.
	Path string
	// TrailingSlash tells ".../proxy/" from ".../proxy".
	TrailingSlash bool

	// Spaceless says that the path has an empty part where a namespace is named: that is none, and not the same as a path without one.
	Spaceless bool
	// Nameless says that it has an empty part where the object is named whose subresource follows.
	Nameless bool

	// Incomplete says that the path ends where a resource has to be named.
	Incomplete bool

	known bool
	// prefix is the verb that stands before the resource in the path.
	prefix string
	// byPath says that the path alone asks for the watch: its options are judged as those of a list.
	byPath bool
}

// IsResource reports whether the path names a resource at all.
func (i Info) IsResource() bool { return i.known }

// connectable are the subresources that are byte streams, by resource of the core group.
var connectable = map[string][]string{
	"pods":     {"log", "exec", "attach", "portforward", "proxy"},
	"services": {"proxy"},
	"nodes":    {"proxy"},
}

// ofNamespace are the subresources of a namespace; any other third part of
// /namespaces/{name}/... is a resource inside it.
var ofNamespace = []string{"status", "finalize"}

// proxied is the verb of paths by which things were reached before they had subresources for it.
const proxied = "proxy"

// prefixes are the verbs that may stand before the resource in a path, whatever the method is.
var prefixes = []string{Watch, proxied}

// Resolve reads a request's path as it is when nothing in it is escaped.
func Resolve(method string, u *url.URL) Info {
	if strings.HasPrefix(u.Path, "//") {
		return Info{} // another path, at which there is nothing
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	var info Info
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		info.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis" && parts[1] != "": // the group without a name is not there
		info.Group, info.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return Info{}
	}
	if slices.Contains(prefixes, parts[0]) {
		if info.prefix, parts = parts[0], parts[1:]; len(parts) == 0 {
			return Info{Incomplete: true}
		}
	}
	rest := info.object(parts)
	if info.Version == "" || info.Resource == "" {
		return Info{}
	}
	if info.prefix == proxied {
		info.Subresource = "" // what follows the name is the target's
	}
	info.known = true
	info.Nameless = info.Name == "" && info.Subresource != ""
	info.Path = (&url.URL{Path: strings.Join(rest, "/")}).EscapedPath()
	info.TrailingSlash = strings.HasSuffix(u.Path, "/")
	switch {
	case info.Nameless: // there is nothing to do with it
	case info.prefix == "" && (len(rest) == 0 || info.Subresource == "proxy"):
		info.Verb = info.verb(method, wantsWatch(u))
	case info.prefix == Watch && method == http.MethodGet && info.Subresource == "":
		info.Verb, info.byPath = Watch, !wantsWatch(u)
	}
	return info
}

// object takes namespace, resource, name and subresource off the parts.
func (i *Info) object(parts []string) (rest []string) {
	if parts[0] == "namespaces" && len(parts) > 2 && !slices.Contains(ofNamespace, parts[2]) {
		i.Namespace, i.Spaceless, parts = parts[1], parts[1] == "", parts[2:]
	}
	for _, field := range []*string{&i.Resource, &i.Name, &i.Subresource} {
		if len(parts) == 0 {
			return nil
		}
		*field, parts = parts[0], parts[1:]
	}
	return parts
}

func (i Info) verb(method string, watch bool) string {
	if i.Group == "" && slices.Contains(connectable[i.Resource], i.Subresource) {
		if i.Subresource == "proxy" || method == http.MethodGet || method == http.MethodPost && i.Subresource != "log" {
			return Connect
		}
		return ""
	}
	named := i.Name != ""
	switch method {
	case http.MethodGet:
		switch {
		case named:
			return Get
		case watch:
			return Watch
		}
		return List
	case http.MethodPost:
		if named == (i.Subresource != "") {
			return Create
		}
	case http.MethodPut:
		if named {
			return Update
		}
	case http.MethodPatch:
		if named {
			return Patch
		}
	case http.MethodDelete:
		switch {
		case i.Subresource != "":
			return ""
		case named:
			return Delete
		}
		return DeleteCollection
	}
	return ""
}

// wantsWatch reads the watch option as Kubernetes reads booleans: any value
// but "false" and "0" is true.
func wantsWatch(u *url.URL) bool {
	values, ok := u.Query()["watch"]
	return ok && parseBool(values)
}

// methods are the verbs by which methods are authorized, whatever they mean where they are used.
var methods = map[string]string{
	http.MethodGet: Get, http.MethodHead: Get, http.MethodPost: Create, http.MethodPut: Update, http.MethodPatch: Patch, http.MethodDelete: Delete,
}

// Authorized is the verb as which a request is authorized that will be refused for another reason, or whose method does not go with its path.
func (i Info) Authorized(method string, u *url.URL) string {
	verb := methods[method]
	switch {
	case i.prefix != "":
		return i.prefix
	case i.Name != "":
		return verb
	case verb == Get && wantsWatch(u):
		return Watch
	case verb == Get:
		return List
	case verb == Delete:
		return DeleteCollection
	}
	return verb
}

// Beyond reports whether the path goes on where that of a built-in resource ends.
func (i Info) Beyond() bool {
	return i.prefix == proxied || i.prefix == Watch && i.Subresource != "" || i.Subresource != "proxy" && i.Path != ""
}

// LongRunning reports whether the request may last for ever.
func (i Info) LongRunning() bool { return i.Verb == Watch || i.Verb == Connect || i.prefix == Watch }

// ReadOnly reports whether the request changes nothing.
func (i Info) ReadOnly() bool { return i.Verb == Get || i.Verb == List || i.Verb == Watch }
