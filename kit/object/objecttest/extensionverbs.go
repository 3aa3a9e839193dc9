package objecttest

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxBody bounds what an Extension reads of a request, in bytes.
const maxBody = 1 << 20

func (e *Extension) serve(w http.ResponseWriter, r *http.Request, at place) {
	e.mu.Lock()
	defer e.mu.Unlock()
	verb := map[string]string{"GET": "get", "DELETE": "delete", "PATCH": "patch"}[r.Method]
	switch {
	case at.name == "" && r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		verb = "watch"
	case at.name == "" && r.Method == http.MethodGet:
		verb = "list"
	case at.name == "" && r.Method == http.MethodDelete && !e.WithoutCollections:
		verb = "deletecollection"
	case at.name == "":
		verb = ""
	}
	e.calls[verb+" "+at.resource]++
	o := e.objects[at.key()]
	switch {
	case verb == "watch":
		e.watch(w, r, at)
	case verb == "list":
		e.list(w, at)
	case verb == "deletecollection":
		for _, o := range e.of(at) {
			e.remove(at.resource, o, options(r))
		}
		write(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	case verb == "":
		fail(w, at, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "cannot be asked this")
	case o == nil:
		fail(w, at, http.StatusNotFound, metav1.StatusReasonNotFound, "not found")
	case verb == "get":
		write(w, http.StatusOK, shown(o, at.metadata))
	case verb == "delete":
		asked := options(r)
		if p := asked.Preconditions; p != nil && (p.UID != nil && *p.UID != o.UID || p.ResourceVersion != nil && *p.ResourceVersion != o.ResourceVersion) {
			fail(w, at, http.StatusConflict, metav1.StatusReasonConflict, "is another by now")
			return
		}
		write(w, http.StatusOK, shown(e.remove(at.resource, o, asked), at.metadata))
	default:
		e.patch(w, r, at, o)
	}
}

// of returns the objects of a place. e.mu is held.
func (e *Extension) of(at place) []*metav1.PartialObjectMetadata {
	var found []*metav1.PartialObjectMetadata
	for _, o := range e.objects {
		if o.Kind == extensionKinds[at.resource].Kind && (at.namespace == "" || o.Namespace == at.namespace) {
			found = append(found, o)
		}
	}
	return found
}

func (e *Extension) list(w http.ResponseWriter, at place) {
	list := metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{Kind: extensionKinds[at.resource].Kind + "List", APIVersion: ExtensionGroup.String()},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(e.revision)}, Items: []metav1.PartialObjectMetadata{},
	}
	if at.metadata {
		list.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}
	}
	for _, o := range e.of(at) {
		list.Items = append(list.Items, *shown(o, at.metadata))
	}
	write(w, http.StatusOK, list)
}

// watch tells of what happens until the client goes. e.mu is held, and let go of between events.
func (e *Extension) watch(w http.ResponseWriter, r *http.Request, at place) {
	after, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion")) // none is the beginning
	stop := contextEnds(r, e.changed)
	defer stop()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for next := 0; r.Context().Err() == nil; {
		if next == len(e.log) {
			e.mu.Unlock()
			_ = http.NewResponseController(w).Flush()
			e.mu.Lock()
			if next == len(e.log) && r.Context().Err() == nil {
				e.changed.Wait()
			}
			continue
		}
		event := e.log[next]
		next++
		if event.resource == at.resource && event.revision > after && (at.namespace == "" || event.object.Namespace == at.namespace) {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": event.kind, "object": shown(event.object, at.metadata)})
		}
	}
}

// remove deletes an object as far as its finalizers let. e.mu is held.
func (e *Extension) remove(resource string, o *metav1.PartialObjectMetadata, asked metav1.DeleteOptions) *metav1.PartialObjectMetadata {
	if o.DeletionTimestamp != nil {
		return o
	}
	o = o.DeepCopy()
	now := metav1.Now()
	o.DeletionTimestamp = &now
	if asked.PropagationPolicy != nil {
		switch *asked.PropagationPolicy {
		case metav1.DeletePropagationForeground:
			o.Finalizers = append(o.Finalizers, metav1.FinalizerDeleteDependents)
		case metav1.DeletePropagationOrphan:
			o.Finalizers = append(o.Finalizers, metav1.FinalizerOrphanDependents)
		}
	}
	return e.store(resource, o)
}

func (e *Extension) patch(w http.ResponseWriter, r *http.Request, at place, o *metav1.PartialObjectMetadata) {
	was, err := json.Marshal(o)
	if err == nil {
		var patch []byte
		if patch, err = io.ReadAll(io.LimitReader(r.Body, maxBody)); err == nil {
			was, err = mergeJSON(was, patch)
		}
	}
	changed := &metav1.PartialObjectMetadata{}
	if err == nil {
		err = json.Unmarshal(was, changed)
	}
	switch {
	case err != nil:
		fail(w, at, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	case changed.UID != o.UID || changed.ResourceVersion != o.ResourceVersion:
		fail(w, at, http.StatusConflict, metav1.StatusReasonConflict, "is another by now")
	default:
		write(w, http.StatusOK, shown(e.store(at.resource, changed), at.metadata))
	}
}

// options are those of a deletion, from its body; none and those that cannot be read are the defaults.
func options(r *http.Request) metav1.DeleteOptions {
	var o metav1.DeleteOptions
	_ = json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&o)
	return o
}

// Release takes the finalizers off an object.
func (e *Extension) Release(resource, namespace, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := e.objects[place{resource: resource, namespace: namespace, name: name}.key()]
	if o == nil {
		return
	}
	o = o.DeepCopy()
	o.Finalizers = nil
	e.store(resource, o)
}
