package objecttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ExtensionGroup is the group version that an Extension serves: widgets in namespaces and racks in none.
var ExtensionGroup = schema.GroupVersion{Group: "extension.example.com", Version: "v1"}

// extensionKinds are the kinds of an Extension by resource.
var extensionKinds = map[string]metav1.APIResource{
	"widgets": {Name: "widgets", SingularName: "widget", Kind: "Widget", Namespaced: true},
	"racks":   {Name: "racks", SingularName: "rack", Kind: "Rack"},
}

// Extension is an extension API server in memory: it serves ExtensionGroup over HTTP, in JSON, whole objects and their metadata, with
// finalizers, propagation, preconditions and watches. Its methods may be called while clients use it.
type Extension struct {
	// Fault, where set before the first request, sees every request first; it answers those for which it returns true.
	Fault func(w http.ResponseWriter, r *http.Request) bool
	// WithoutCollections makes it know no deletion of collections.
	WithoutCollections bool

	mu       sync.Mutex
	changed  *sync.Cond
	revision int
	objects  map[string]*metav1.PartialObjectMetadata // by resource/namespace/name
	log      []extensionEvent
	calls    map[string]int
}

// extensionEvent is one change that watches tell of.
type extensionEvent struct {
	resource, kind string
	revision       int
	object         *metav1.PartialObjectMetadata
}

// NewExtension returns a server without objects.
func NewExtension() *Extension {
	e := &Extension{objects: map[string]*metav1.PartialObjectMetadata{}, calls: map[string]int{}}
	e.changed = sync.NewCond(&e.mu)
	return e
}

// Resources is the document of what it serves.
func (e *Extension) Resources() *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: ExtensionGroup.String()}
	for _, name := range []string{"racks", "widgets"} {
		r := extensionKinds[name]
		r.Verbs = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "watch"}
		if e.WithoutCollections {
			r.Verbs = slices.DeleteFunc(r.Verbs, func(v string) bool { return v == "deletecollection" })
		}
		list.APIResources = append(list.APIResources, r)
	}
	return list
}

// Put stores an object and returns it as stored.
func (e *Extension) Put(resource string, meta metav1.ObjectMeta) *metav1.PartialObjectMetadata {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := &metav1.PartialObjectMetadata{ObjectMeta: *meta.DeepCopy()}
	o.APIVersion, o.Kind = ExtensionGroup.String(), extensionKinds[resource].Kind
	if o.UID == "" {
		o.UID = types.UID(uuid.NewString())
	}
	if o.CreationTimestamp.IsZero() {
		o.CreationTimestamp = metav1.Now()
	}
	return e.store(resource, o)
}

// Names returns the sorted names of the objects of a resource.
func (e *Extension) Names(resource string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := []string{}
	for key, o := range e.objects {
		if strings.HasPrefix(key, resource+"/") {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Calls tells how often a verb of a resource was asked for.
func (e *Extension) Calls(verb, resource string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[verb+" "+resource]
}

// ServeHTTP implements http.Handler.
func (e *Extension) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.Fault != nil && e.Fault(w, r) {
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/apis/"+ExtensionGroup.String())
	if !ok {
		http.NotFound(w, r)
		return
	}
	parts := strings.Split(strings.Trim(rest, "/"), "/")
	if parts[0] == "" {
		write(w, http.StatusOK, e.Resources())
		return
	}
	at := place{metadata: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")}
	if parts[0] == "namespaces" && len(parts) > 2 {
		at.namespace, parts = parts[1], parts[2:]
	}
	at.resource = parts[0]
	if len(parts) > 1 {
		at.name = parts[1]
	}
	if _, ok := extensionKinds[at.resource]; !ok || len(parts) > 2 {
		http.NotFound(w, r)
		return
	}
	e.serve(w, r, at)
}

// place is what a request is about.
type place struct {
	resource, namespace, name string
	metadata                  bool // only metadata is wanted
}

func (p place) key() string { return p.resource + "/" + p.namespace + "/" + p.name }

// store keeps an object, or lets one go that nothing holds any more, and tells of it. e.mu is held.
func (e *Extension) store(resource string, o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	e.revision++
	o = o.DeepCopy()
	o.ResourceVersion = strconv.Itoa(e.revision)
	key := place{resource: resource, namespace: o.Namespace, name: o.Name}.key()
	_, had := e.objects[key]
	kind := "ADDED"
	switch {
	case o.DeletionTimestamp != nil && len(o.Finalizers) == 0:
		kind = "DELETED"
		delete(e.objects, key)
	case had:
		kind = "MODIFIED"
		fallthrough
	default:
		e.objects[key] = o
	}
	e.log = append(e.log, extensionEvent{resource, kind, e.revision, o})
	e.changed.Broadcast()
	return o
}

// shown is an object as a client asked for it.
func shown(o *metav1.PartialObjectMetadata, metadata bool) *metav1.PartialObjectMetadata {
	o = o.DeepCopy()
	if metadata {
		o.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
	}
	return o
}

func write(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func fail(w http.ResponseWriter, p place, code int32, reason metav1.StatusReason, text string) {
	write(w, int(code), metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: fmt.Sprintf("%s.%s %q %s", p.resource, ExtensionGroup.Group, p.name, text),
		Details: &metav1.StatusDetails{Name: p.name, Group: ExtensionGroup.Group, Kind: p.resource},
	})
}
