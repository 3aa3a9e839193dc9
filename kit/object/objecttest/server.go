// Package objecttest is an object API in memory, for the tests of what uses
// kit/object: reads, watches, writes, batches, graceful and propagated
// deletion as clients see them, without defaults, validation or admission.
package objecttest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"howdah.dev/kit/object"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Write describes a write to Server.Intercept.
type Write struct {
	Verb                                   string // create, update, patch or delete
	Resource, Namespace, Name, Subresource string
	Object                                 object.Object // nil for patch and delete
	Fence                                  string        // as the call's metadata has it
}

// Server is the API. Its methods may be called while clients use it.
type Server struct {
	apiv1.UnimplementedObjectServiceServer
	apiv1.UnimplementedDiscoveryServiceServer

	// Intercept, where set before the first call, sees every write first; its
	// error refuses the write.
	Intercept func(Write) error
	// Now is the clock of timestamps; time.Now where nil.
	Now func() time.Time

	extension *Extension // nil: there is none

	mu       sync.Mutex
	changed  *sync.Cond
	kinds    map[schema.GroupVersionResource]kind
	revision int64
	objects  map[string]object.Object // by key
	log      []change
	calls    map[string]int
	tokens   int // minted
}

// kind is what the server knows of a resource.
type kind struct {
	gvk        schema.GroupVersionKind
	namespaced bool
}

// change is one entry of the log that watches read.
type change struct {
	revision    int64
	event       string
	prefix      string
	object, old object.Object
	traceparent string
}

var codec = protobuf.NewSerializer(object.Scheme, object.Scheme)

// clusterScoped are the resources of the scheme that have no namespace.
var clusterScoped = map[string]bool{
	"namespaces": true, "nodes": true, "persistentvolumes": true, "storageclasses": true, "priorityclasses": true,
	"clusterroles": true, "clusterrolebindings": true, "customresourcedefinitions": true, "runtimeclasses": true,
	"ingressclasses": true, "csidrivers": true, "csinodes": true, "volumeattachments": true,
	"resourceslices": true, "deviceclasses": true, "devicetaintrules": true, "certificatesigningrequests": true, "clustertrustbundles": true,
}

// New returns an empty API that serves every kind of the client's scheme.
func New() *Server {
	s := &Server{kinds: map[schema.GroupVersionResource]kind{}, objects: map[string]object.Object{}, calls: map[string]int{}}
	s.changed = sync.NewCond(&s.mu)
	for gvk := range object.Scheme.AllKnownTypes() {
		obj, err := object.Scheme.New(gvk)
		if err != nil {
			continue
		}
		if _, ok := obj.(object.Object); !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		gvr, _ := meta.UnsafeGuessKindToResource(gvk)
		if gvk.Kind == "Endpoints" {
			gvr.Resource = "endpoints"
		}
		s.kinds[gvr] = kind{gvk, !clusterScoped[gvr.Resource]}
	}
	// Definitions are read as metadata alone, and there are none.
	s.kinds[schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}] = kind{
		schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, false,
	}
	return s
}

// Start serves a new API until the test ends and returns it with a client.
func Start(t testing.TB) (*Server, *object.Client) {
	t.Helper()
	s := New()
	return s, s.Serve(t)
}

// Serve serves the API until the test ends and returns a client of it.
func (s *Server) Serve(t testing.TB) *object.Client {
	t.Helper()
	return s.serve(t, s)
}

func (s *Server) serve(t testing.TB, objects apiv1.ObjectServiceServer) *object.Client {
	t.Helper()
	listener := rpc.ListenInMemory()
	server := rpc.NewServer(nil, prometheus.NewRegistry())
	apiv1.RegisterObjectServiceServer(server, objects)
	apiv1.RegisterDiscoveryServiceServer(server, s)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeUntil(ctx, listener)
	}()
	conn, err := listener.Dial(rpc.User{Name: "test", Groups: []string{"system:masters"}})
	if err != nil {
		t.Fatalf("dial the test API: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		_ = conn.Close()
		server.Server.Stop()
		s.changed.Broadcast()
		<-done
	})
	return object.NewClient(conn, "test")
}

// Calls returns how often a verb was called: "create pods", "watch pods", "batch".
func (s *Server) Calls(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[call]
}

// Writes returns how often objects of a resource were written.
func (s *Server) Writes(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.log {
		if strings.HasSuffix(c.prefix, "/"+resource+"/") {
			n++
		}
	}
	return n
}

// Revision is the revision of the last write.
func (s *Server) Revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

func (s *Server) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// request is what every request names.
type request interface {
	GetGroup() string
	GetVersion() string
	GetResource() string
	GetNamespace() string
}

func (s *Server) resolve(r request) (kind, string, error) {
	gvr := schema.GroupVersionResource{Group: r.GetGroup(), Version: r.GetVersion(), Resource: r.GetResource()}
	k, ok := s.kinds[gvr]
	if !ok {
		return kind{}, "", apierrors.NewNotFound(gvr.GroupResource(), "")
	}
	return k, gvr.Group + "/" + gvr.Resource + "/", nil
}

func key(prefix, namespace, name string) string { return prefix + namespace + "/" + name }

func groupResource(r request) schema.GroupResource {
	return schema.GroupResource{Group: r.GetGroup(), Resource: r.GetResource()}
}

func fenceOf(ctx context.Context) string {
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		if v := md.Get("howdah-fence"); len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

// record stores or removes an object and tells the watches. s.mu is held.
func (s *Server) record(event, prefix string, obj, old object.Object, traceparent string) object.Object {
	s.revision++
	obj = obj.DeepCopyObject().(object.Object)
	obj.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	k := key(prefix, obj.GetNamespace(), obj.GetName())
	if event == "DELETED" {
		delete(s.objects, k)
	} else {
		s.objects[k] = obj
	}
	s.log = append(s.log, change{s.revision, event, prefix, obj, old, traceparent})
	s.changed.Broadcast()
	return obj
}

// encode returns the object as accept asks for it.
func encode(k kind, obj object.Object, accept string) ([]byte, error) {
	var out runtime.Object = obj
	if strings.Contains(accept, "as=PartialObjectMetadata") {
		partial := meta.AsPartialObjectMetadata(obj)
		partial.SetGroupVersionKind(schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: "PartialObjectMetadata"})
		out = partial
	} else {
		out = obj.DeepCopyObject()
		out.GetObjectKind().SetGroupVersionKind(k.gvk)
	}
	data, err := runtime.Encode(codec, out)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", k.gvk.Kind, err)
	}
	return data, nil
}

func decode(k kind, data []byte) (object.Object, error) {
	obj, _, err := codec.Decode(data, &k.gvk, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	typed, ok := obj.(object.Object)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%T is no object", obj))
	}
	return typed, nil
}
