// Package fake is an API server in memory for the gateway's tests: real
// enough for client-go, with ports and commands that tests can predict.
package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Server is the API server.
type Server struct {
	apiv1.UnimplementedObjectServiceServer
	apiv1.UnimplementedDiscoveryServiceServer

	// Before is called with the metadata of every call; its error is the
	// call's answer.
	Before func(method string, md metadata.MD) error
	// Requests receives every request message, where it has room.
	Requests chan any
	// Reports receives what the gateway says that it answered by itself, where it has room.
	Reports chan Report
	// Ended receives the name of every stream's method once it has ended, where it has room.
	Ended chan string
	// Pieces is after how many pieces of its answer a list fails; 0 is never.
	Pieces int
	// Warning is sent with every answer where set.
	Warning string
	// LinesFollow feeds logs that are followed; closing it ends them.
	LinesFollow chan string

	mu       sync.Mutex
	revision int64
	objects  map[string]*unstructured.Unstructured
	log      []event
	changed  chan struct{} // closed and replaced at every change
	broken   chan struct{} // closed by BreakWatches
}

type event struct {
	kind     string
	revision int64
	key      string
	object   *unstructured.Unstructured
}

// New returns an empty server.
func New() *Server {
	return &Server{
		Requests:    make(chan any, 1000),
		Reports:     make(chan Report, 1000),
		Ended:       make(chan string, 1000),
		LinesFollow: make(chan string),
		objects:     map[string]*unstructured.Unstructured{},
		changed:     make(chan struct{}),
		broken:      make(chan struct{}),
	}
}

// Register adds the services to a gRPC server.
func (s *Server) Register(server grpc.ServiceRegistrar) {
	apiv1.RegisterObjectServiceServer(server, s)
	apiv1.RegisterDiscoveryServiceServer(server, s)
}

// BreakWatches ends every watch as a lost connection would.
func (s *Server) BreakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.broken)
	s.broken = make(chan struct{})
}

func (s *Server) before(ctx context.Context, method string, request any) error {
	if t, ok := request.(target); ok && t.GetResource() == "apiservices" {
		return nil // the gateway's own question is not what tests are about
	}
	select {
	case s.Requests <- request:
	default:
	}
	if s.Warning != "" {
		_ = grpc.SetHeader(ctx, metadata.Pairs("warning", s.Warning))
	}
	md, _ := metadata.FromIncomingContext(ctx)
	if wrong := append(md.Get("howdah-wrong-options-bin"), md.Get("howdah-unread-body-bin")...); len(wrong) > 0 { // the gateway tells what the API server is to refuse
		refusal := &apierrors.StatusError{}
		if err := json.Unmarshal([]byte(wrong[0]), &refusal.ErrStatus); err != nil {
			return err
		}
		return refusal
	}
	if s.Before == nil {
		return nil
	}
	return s.Before(method, md)
}

// target is what every request names.
type target interface {
	GetGroup() string
	GetResource() string
	GetNamespace() string
}

func prefix(t target) string {
	p := t.GetGroup() + "/" + t.GetResource() + "/"
	if t.GetNamespace() != "" {
		p += t.GetNamespace() + "/"
	}
	return p
}

func groupResource(t target) schema.GroupResource {
	return schema.GroupResource{Group: t.GetGroup(), Resource: t.GetResource()}
}

// Get implements ObjectService.
func (s *Server) Get(ctx context.Context, r *apiv1.GetRequest) (*apiv1.GetResponse, error) {
	if err := s.before(ctx, "Get", r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[prefix(r)+r.Name]
	if !ok {
		return nil, apierrors.NewNotFound(groupResource(r), r.Name)
	}
	data, contentType, err := encode(o, r.Accept)
	return &apiv1.GetResponse{Object: data, ContentType: contentType}, err
}

// Create implements ObjectService.
func (s *Server) Create(ctx context.Context, r *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	if err := s.before(ctx, "Create", r); err != nil {
		return nil, err
	}
	o, err := decode(r.Object)
	if err != nil {
		return nil, err
	}
	name := o.GetName()
	if r.Subresource == "" {
		o.SetNamespace(r.Namespace)
		if o.GetUID() == "" {
			o.SetUID("uid-" + "x")
		}
		key := prefix(r) + name
		s.mu.Lock()
		if _, exists := s.objects[key]; exists {
			s.mu.Unlock()
			return nil, apierrors.NewAlreadyExists(groupResource(r), name)
		}
		s.put("ADDED", key, o)
		s.mu.Unlock()
	}
	data, contentType, err := encode(o, r.Accept)
	return &apiv1.CreateResponse{Object: data, ContentType: contentType, Code: http.StatusCreated}, err
}

// Update implements ObjectService.
func (s *Server) Update(ctx context.Context, r *apiv1.UpdateRequest) (*apiv1.UpdateResponse, error) {
	if err := s.before(ctx, "Update", r); err != nil {
		return nil, err
	}
	o, err := decode(r.Object)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[prefix(r)+r.Name]
	if !ok {
		return nil, apierrors.NewNotFound(groupResource(r), r.Name)
	}
	if v := o.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(groupResource(r), r.Name, fmt.Errorf("the object has been modified"))
	}
	s.put("MODIFIED", prefix(r)+r.Name, o)
	data, contentType, err := encode(o, r.Accept)
	return &apiv1.UpdateResponse{Object: data, ContentType: contentType, Code: http.StatusOK}, err
}

// Patch implements ObjectService: it sets labels from merge patches, and
// answers 201 to apply.
func (s *Server) Patch(ctx context.Context, r *apiv1.PatchRequest) (*apiv1.PatchResponse, error) {
	if err := s.before(ctx, "Patch", r); err != nil {
		return nil, err
	}
	patch, err := decode(r.Object)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key, code := prefix(r)+r.Name, int32(http.StatusOK)
	o, ok := s.objects[key]
	switch {
	case ok:
		o = o.DeepCopy()
		o.SetLabels(patch.GetLabels())
		s.put("MODIFIED", key, o)
	case r.ContentType == "application/apply-patch+yaml":
		o, code = patch, http.StatusCreated
		o.SetNamespace(r.Namespace)
		s.put("ADDED", key, o)
	default:
		return nil, apierrors.NewNotFound(groupResource(r), r.Name)
	}
	data, contentType, err := encode(o, r.Accept)
	return &apiv1.PatchResponse{Object: data, ContentType: contentType, Code: code}, err
}

// Delete implements ObjectService.
func (s *Server) Delete(ctx context.Context, r *apiv1.DeleteRequest) (*apiv1.DeleteResponse, error) {
	if err := s.before(ctx, "Delete", r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := prefix(r) + r.Name
	o, ok := s.objects[key]
	if !ok {
		return nil, apierrors.NewNotFound(groupResource(r), r.Name)
	}
	s.put("DELETED", key, o.DeepCopy())
	return &apiv1.DeleteResponse{
		Object:      []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`),
		ContentType: "application/json", Code: http.StatusOK,
	}, nil
}

// DeleteCollection implements ObjectService.
func (s *Server) DeleteCollection(ctx context.Context, r *apiv1.DeleteCollectionRequest) (*apiv1.DeleteCollectionResponse, error) {
	if err := s.before(ctx, "DeleteCollection", r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.keys(prefix(r)) {
		s.put("DELETED", key, s.objects[key].DeepCopy())
	}
	return &apiv1.DeleteCollectionResponse{
		Object:      []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`),
		ContentType: "application/json", Code: http.StatusOK,
	}, nil
}

// put records a change; the lock is held.
func (s *Server) put(kind, key string, o *unstructured.Unstructured) {
	s.revision++
	o.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	if kind == "DELETED" {
		delete(s.objects, key)
	} else {
		s.objects[key] = o
	}
	s.log = append(s.log, event{kind, s.revision, key, o})
	close(s.changed)
	s.changed = make(chan struct{})
}
