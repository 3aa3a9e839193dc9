// Package fakeapi is a small object API in memory, for the tests of the node
// agent: enough of it to follow, write and end pods.
package fakeapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/uuid"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

var codec = protobuf.NewSerializer(object.Scheme, object.Scheme)

// Server is the API. Its methods are safe for concurrent use.
type Server struct {
	apiv1.UnimplementedObjectServiceServer

	mu       sync.Mutex
	revision int64
	objects  map[string]map[string]runtime.Object // by resource, then by key
	watchers map[*watcher]bool
	// Calls counts the calls of each method; Writes the writes of each resource.
	calls, writes map[string]int
	// trace, where set, is the traceparent that watchers see.
	trace string
	// fail, where set, may refuse a write.
	fail func(method, resource string) error
}

type watcher struct {
	resource string
	selector func(runtime.Object) bool
	events   chan *apiv1.WatchEvent
}

// Start serves an empty API and returns it with a client.
func Start(t testing.TB) (*Server, *object.Client) {
	t.Helper()
	s := &Server{
		objects: map[string]map[string]runtime.Object{}, watchers: map[*watcher]bool{}, calls: map[string]int{}, writes: map[string]int{},
	}
	listener := rpc.ListenInMemory()
	server := rpc.NewServer(nil, nil)
	apiv1.RegisterObjectServiceServer(server, s)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.ServeUntil(ctx, listener) }()
	conn, err := listener.Dial(rpc.User{Name: "system:node:test", Groups: []string{"system:nodes"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		server.Stop()
		<-done
	})
	return s, object.NewClient(conn, "test")
}

// Trace makes later changes bear a traceparent.
func (s *Server) Trace(traceparent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = traceparent
}

// Fail makes writes fail with what f returns.
func (s *Server) Fail(f func(method, resource string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// Calls returns how often a method was called.
func (s *Server) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// Writes returns how often objects of a resource were written.
func (s *Server) Writes(resource string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes[resource]
}

func access(obj runtime.Object) metav1.Object {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	return m
}

func key(namespace, name string) string { return namespace + "/" + name }

func decode(data []byte) (runtime.Object, error) {
	obj, _, err := codec.Decode(data, nil, nil)
	return obj, err
}

func encode(obj runtime.Object) []byte {
	copied := obj.DeepCopyObject()
	kinds, _, err := object.Scheme.ObjectKinds(copied)
	if err != nil {
		panic(err)
	}
	copied.GetObjectKind().SetGroupVersionKind(kinds[0])
	data, err := runtime.Encode(codec, copied)
	if err != nil {
		panic(err)
	}
	return data
}

// selector understands the field selectors that a node uses.
func selector(text string) func(runtime.Object) bool {
	field, value, ok := strings.Cut(text, "=")
	return func(obj runtime.Object) bool {
		if !ok {
			return true
		}
		value := strings.TrimPrefix(value, "=")
		switch field {
		case "spec.nodeName":
			pod, isPod := obj.(*corev1.Pod)
			return isPod && pod.Spec.NodeName == value
		case "spec.nodeName!":
			pod, isPod := obj.(*corev1.Pod)
			return isPod && pod.Spec.NodeName != value
		case "metadata.name":
			return access(obj).GetName() == value
		}
		panic("field selector " + text)
	}
}

// publish stores an object (nil removes it) and tells the watchers. The
// caller holds mu.
func (s *Server) publish(resource, k string, obj runtime.Object) runtime.Object {
	s.revision++
	s.writes[resource]++
	if s.objects[resource] == nil {
		s.objects[resource] = map[string]runtime.Object{}
	}
	old := s.objects[resource][k]
	removed := obj == nil
	if removed {
		obj = old.DeepCopyObject()
		delete(s.objects[resource], k)
	} else {
		s.objects[resource][k] = obj
	}
	access(obj).SetResourceVersion(strconv.FormatInt(s.revision, 10))
	for w := range s.watchers {
		if w.resource != resource {
			continue
		}
		was, is := old != nil && w.selector(old), !removed && w.selector(obj)
		event := &apiv1.WatchEvent{Object: encode(obj), Revision: s.revision, Traceparent: s.trace}
		switch {
		case is && was:
			event.Type = "MODIFIED"
		case is:
			event.Type = "ADDED"
		case was:
			event.Type = "DELETED"
		default:
			continue
		}
		w.events <- event
	}
	return obj
}

func (s *Server) count(method, resource string) error {
	s.calls[method]++
	if s.fail != nil {
		return s.fail(method, resource)
	}
	return nil
}

func group(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }

// Get implements ObjectService.
func (s *Server) Get(_ context.Context, r *apiv1.GetRequest) (*apiv1.GetResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls["Get"]++
	obj, ok := s.objects[r.GetResource()][key(r.GetNamespace(), r.GetName())]
	if !ok {
		return nil, apierrors.NewNotFound(group(r.GetResource()), r.GetName())
	}
	return &apiv1.GetResponse{Object: encode(obj), ContentType: object.ContentType}, nil
}

// List implements ObjectService.
func (s *Server) List(r *apiv1.ListRequest, stream grpc.ServerStreamingServer[apiv1.ListResponse]) error {
	s.mu.Lock()
	s.calls["List"]++
	data, err := s.list(r)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return stream.Send(&apiv1.ListResponse{Object: data, ContentType: object.ContentType})
}

func (s *Server) list(r *apiv1.ListRequest) ([]byte, error) {
	kind, ok := listKinds[r.GetResource()]
	if !ok {
		return nil, fmt.Errorf("the test API has no %s", r.GetResource())
	}
	list, err := object.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	wanted := selector(r.GetFieldSelector())
	var items []runtime.Object
	for _, obj := range s.objects[r.GetResource()] {
		if wanted(obj) {
			items = append(items, obj)
		}
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	list.GetObjectKind().SetGroupVersionKind(kind)
	return runtime.Encode(codec, list)
}

var listKinds = map[string]schema.GroupVersionKind{
	"pods":           {Version: "v1", Kind: "PodList"},
	"nodes":          {Version: "v1", Kind: "NodeList"},
	"services":       {Version: "v1", Kind: "ServiceList"},
	"leases":         {Group: "coordination.k8s.io", Version: "v1", Kind: "LeaseList"},
	"endpointslices": {Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSliceList"},
	"events":         {Version: "v1", Kind: "EventList"},
}

// Watch implements ObjectService.
func (s *Server) Watch(r *apiv1.WatchRequest, stream grpc.ServerStreamingServer[apiv1.WatchResponse]) error {
	w := &watcher{resource: r.GetResource(), selector: selector(r.GetFieldSelector()), events: make(chan *apiv1.WatchEvent, 100_000)}
	since, _ := strconv.ParseInt(r.GetResourceVersion(), 10, 64)
	s.mu.Lock()
	s.calls["Watch"]++
	for _, obj := range s.objects[r.GetResource()] { // what changed between list and watch
		revision, _ := strconv.ParseInt(access(obj).GetResourceVersion(), 10, 64)
		if revision > since && w.selector(obj) {
			w.events <- &apiv1.WatchEvent{Type: "ADDED", Object: encode(obj), Revision: revision, Traceparent: s.trace}
		}
	}
	s.watchers[w] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, w)
	}()
	if err := stream.Send(&apiv1.WatchResponse{ContentType: object.ContentType}); err != nil {
		return err
	}
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case event := <-w.events:
			if err := stream.Send(&apiv1.WatchResponse{Events: []*apiv1.WatchEvent{event}}); err != nil {
				return err
			}
		}
	}
}

// Create implements ObjectService.
func (s *Server) Create(_ context.Context, r *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	obj, err := decode(r.GetObject())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.count("Create", r.GetResource()); err != nil {
		return nil, err
	}
	if request, ok := obj.(*authenticationv1.TokenRequest); ok {
		request.Status.Token = fmt.Sprintf("token-%s-%d", r.GetName(), s.calls["Create"])
		request.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(time.Duration(*request.Spec.ExpirationSeconds) * time.Second))
		return &apiv1.CreateResponse{Object: encode(request), ContentType: object.ContentType, Code: http.StatusCreated}, nil
	}
	m := access(obj)
	k := key(m.GetNamespace(), m.GetName())
	if _, exists := s.objects[r.GetResource()][k]; exists {
		return nil, apierrors.NewAlreadyExists(group(r.GetResource()), m.GetName())
	}
	if m.GetUID() == "" {
		m.SetUID(uuid.NewUUID())
	}
	m.SetCreationTimestamp(metav1.Now())
	if node, ok := obj.(*corev1.Node); ok {
		node.Status = corev1.NodeStatus{Conditions: nil}
	}
	obj = s.publish(r.GetResource(), k, obj)
	return &apiv1.CreateResponse{Object: encode(obj), ContentType: object.ContentType, Code: http.StatusCreated}, nil
}

// Update implements ObjectService.
func (s *Server) Update(_ context.Context, r *apiv1.UpdateRequest) (*apiv1.UpdateResponse, error) {
	obj, err := decode(r.GetObject())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.count("Update", r.GetResource()); err != nil {
		return nil, err
	}
	m := access(obj)
	k := key(m.GetNamespace(), m.GetName())
	old, exists := s.objects[r.GetResource()][k]
	if !exists {
		return nil, apierrors.NewNotFound(group(r.GetResource()), m.GetName())
	}
	if m.GetUID() != "" && m.GetUID() != access(old).GetUID() || m.GetResourceVersion() != "" && m.GetResourceVersion() != access(old).GetResourceVersion() {
		return nil, apierrors.NewConflict(group(r.GetResource()), m.GetName(), fmt.Errorf("the object has been modified"))
	}
	if r.GetSubresource() == "status" {
		merged := old.DeepCopyObject()
		switch target := merged.(type) {
		case *corev1.Pod:
			target.Status = obj.(*corev1.Pod).Status
		case *corev1.Node:
			target.Status = obj.(*corev1.Node).Status
		}
		obj = merged
	}
	obj = s.publish(r.GetResource(), k, obj)
	return &apiv1.UpdateResponse{Object: encode(obj), ContentType: object.ContentType, Code: http.StatusOK}, nil
}

// Patch implements ObjectService, for the strategic patches of events.
func (s *Server) Patch(_ context.Context, r *apiv1.PatchRequest) (*apiv1.PatchResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.count("Patch", r.GetResource()); err != nil {
		return nil, err
	}
	k := key(r.GetNamespace(), r.GetName())
	old, exists := s.objects[r.GetResource()][k].(*corev1.Event)
	if !exists || r.GetContentType() != string(types.StrategicMergePatchType) {
		return nil, apierrors.NewNotFound(group(r.GetResource()), r.GetName())
	}
	patched, err := patchEvent(old, r.GetObject())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return &apiv1.PatchResponse{Object: encode(s.publish(r.GetResource(), k, patched)), ContentType: object.ContentType, Code: http.StatusOK}, nil
}

func patchEvent(old *corev1.Event, patch []byte) (*corev1.Event, error) {
	before, err := runtime.Encode(jsonCodec, old)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, &corev1.Event{})
	if err != nil {
		return nil, err
	}
	patched := &corev1.Event{}
	return patched, runtime.DecodeInto(jsonCodec, after, patched)
}

// Delete implements ObjectService; pods end gracefully unless asked otherwise.
func (s *Server) Delete(_ context.Context, r *apiv1.DeleteRequest) (*apiv1.DeleteResponse, error) {
	options := &metav1.DeleteOptions{}
	if len(r.GetOptions()) > 0 {
		if _, _, err := codec.Decode(r.GetOptions(), nil, options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.count("Delete", r.GetResource()); err != nil {
		return nil, err
	}
	k := key(r.GetNamespace(), r.GetName())
	old, exists := s.objects[r.GetResource()][k]
	if !exists {
		return nil, apierrors.NewNotFound(group(r.GetResource()), r.GetName())
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != access(old).GetUID() {
		return nil, apierrors.NewConflict(group(r.GetResource()), r.GetName(), fmt.Errorf("uid"))
	}
	if pod, ok := old.(*corev1.Pod); ok && (options.GracePeriodSeconds == nil || *options.GracePeriodSeconds > 0) {
		grace := int64(30)
		if pod.Spec.TerminationGracePeriodSeconds != nil {
			grace = *pod.Spec.TerminationGracePeriodSeconds
		}
		if options.GracePeriodSeconds != nil {
			grace = *options.GracePeriodSeconds
		}
		if grace > 0 {
			ending := pod.DeepCopy()
			ending.DeletionTimestamp, ending.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)}, &grace
			return &apiv1.DeleteResponse{Object: encode(s.publish(r.GetResource(), k, ending)), ContentType: object.ContentType, Code: http.StatusAccepted}, nil
		}
	}
	return &apiv1.DeleteResponse{Object: encode(s.publish(r.GetResource(), k, nil)), ContentType: object.ContentType, Code: http.StatusOK}, nil
}

// Batch implements ObjectService.
func (s *Server) Batch(ctx context.Context, r *apiv1.BatchRequest) (*apiv1.BatchResponse, error) {
	s.mu.Lock()
	s.calls["Batch"]++
	s.mu.Unlock()
	out := &apiv1.BatchResponse{}
	for _, item := range r.GetItems() {
		var data []byte
		var err error
		switch w := item.GetWrite().(type) {
		case *apiv1.BatchItem_Create:
			var resp *apiv1.CreateResponse
			if resp, err = s.Create(ctx, w.Create); err == nil {
				data = resp.GetObject()
			}
		case *apiv1.BatchItem_Update:
			var resp *apiv1.UpdateResponse
			if resp, err = s.Update(ctx, w.Update); err == nil {
				data = resp.GetObject()
			}
		case *apiv1.BatchItem_Delete:
			var resp *apiv1.DeleteResponse
			if resp, err = s.Delete(ctx, w.Delete); err == nil {
				data = resp.GetObject()
			}
		default:
			err = apierrors.NewBadRequest("the test API has no such write")
		}
		result := &apiv1.BatchResult{Object: data, ContentType: object.ContentType, Code: http.StatusOK}
		if err != nil {
			status := apistatus.Of(err)
			result.Object, result.Code = encode(&status), status.Code
		}
		out.Results = append(out.Results, result)
	}
	return out, nil
}

// Events returns the texts of all events about an object, "reason: message".
func (s *Server) Events(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, obj := range s.objects["events"] {
		if e := obj.(*corev1.Event); e.InvolvedObject.Name == name {
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	slices.Sort(out)
	return out
}
