package fake

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// chunk is the size of the pieces of a list, in bytes: small, so that tests see many.
const chunk = 4 << 10

func (s *Server) keys(prefix string) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys
}

// List implements ObjectService.
func (s *Server) List(r *apiv1.ListRequest, stream apiv1.ObjectService_ListServer) error {
	if err := s.before(stream.Context(), "List", r); err != nil {
		return err
	}
	selector, err := labels.Parse(r.LabelSelector)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	s.mu.Lock()
	var items []*unstructured.Unstructured
	for _, key := range s.keys(prefix(r)) {
		if o := s.objects[key]; selector.Matches(labels.Set(o.GetLabels())) {
			items = append(items, o)
		}
	}
	revision := strconv.FormatInt(s.revision, 10)
	s.mu.Unlock()
	gv := schema.GroupVersion{Group: r.Group, Version: r.Version}
	data, contentType, err := encodeList(gv, kindOf(gv, r.Resource), revision, items, r.Accept)
	if err != nil {
		return err
	}
	sent := 0
	for piece := range slices.Chunk(data, chunk) {
		if sent == s.Pieces && sent > 0 {
			return apierrors.NewInternalError(errors.New("the rest is lost"))
		}
		sent++
		if err := stream.Send(&apiv1.ListResponse{Object: piece, ContentType: contentType}); err != nil {
			return err
		}
		contentType = ""
	}
	return nil
}

// Watch implements ObjectService. Resource version 1 is always expired, by
// an event; resource version "bad" is refused before the stream begins.
func (s *Server) Watch(r *apiv1.WatchRequest, stream apiv1.ObjectService_WatchServer) error {
	if r.Resource != "apiservices" { // the gateway's own
		defer s.end("Watch")
	}
	if err := s.before(stream.Context(), "Watch", r); err != nil {
		return err
	}
	if r.ResourceVersion == "bad" {
		return apierrors.NewBadRequest("invalid resource version")
	}
	selector, err := labels.Parse(r.LabelSelector)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	from, _ := strconv.ParseInt(r.ResourceVersion, 10, 64)
	_, contentType, err := encode(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}, r.Accept)
	if err != nil {
		return err
	}
	// The watch stands before its client hears so: what that does next is an event.
	whole := from == 0 && r.SendInitialEvents != "true" && !r.Feed
	var initial []*apiv1.WatchEvent
	if whole {
		if initial, from, err = s.initial(r, selector); err != nil {
			return err
		}
	}
	if err := stream.Send(&apiv1.WatchResponse{ContentType: contentType}); err != nil {
		return err
	}
	if r.ResourceVersion == "1" {
		return s.sendExpired(r, stream)
	}
	var timeout <-chan time.Time
	if r.TimeoutSeconds > 0 {
		timeout = time.After(time.Duration(r.TimeoutSeconds) * time.Second)
	}
	if whole {
		if err := stream.Send(&apiv1.WatchResponse{Events: initial}); err != nil {
			return err
		}
	}
	if r.Feed {
		if from == 0 {
			s.mu.Lock()
			from = s.revision
			s.mu.Unlock()
		}
		if err := stream.Send(&apiv1.WatchResponse{Through: from}); err != nil {
			return err
		}
	}
	for handed := false; ; {
		s.mu.Lock()
		log, changed, broken, revision := s.log, s.changed, s.broken, s.revision
		s.mu.Unlock()
		if handed {
			log = nil
		}
		var out []*apiv1.WatchEvent
		for _, e := range log {
			if e.revision <= from || !strings.HasPrefix(e.key, prefix(r)) || !selector.Matches(labels.Set(e.object.GetLabels())) {
				continue
			}
			data, _, err := encode(e.object, r.Accept)
			if err != nil {
				return err
			}
			out = append(out, &apiv1.WatchEvent{Type: e.kind, Object: data, Revision: e.revision})
			from = e.revision
		}
		if len(out) > 0 {
			if err := stream.Send(&apiv1.WatchResponse{Events: out}); err != nil {
				return err
			}
		}
		if !handed && r.JoinAfter > 0 && revision >= r.JoinAfter {
			handed = true
			if err := stream.Send(&apiv1.WatchResponse{Through: revision}); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-timeout:
			return nil
		case <-broken:
			return status.Error(codes.Unavailable, "transport is closing")
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// initial are the events that a watch begins with, of the state at a revision.
func (s *Server) initial(r *apiv1.WatchRequest, selector labels.Selector) (events []*apiv1.WatchEvent, revision int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.keys(prefix(r)) {
		if o := s.objects[key]; selector.Matches(labels.Set(o.GetLabels())) {
			data, _, err := encode(o, r.Accept)
			if err != nil {
				return nil, 0, err
			}
			events = append(events, &apiv1.WatchEvent{Type: "ADDED", Object: data})
		}
	}
	return events, s.revision, nil
}

func (s *Server) sendExpired(r *apiv1.WatchRequest, stream apiv1.ObjectService_WatchServer) error {
	st := apierrors.NewResourceExpired("too old resource version: 1").Status()
	data, _, err := encode(&unstructured.Unstructured{Object: map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": st.Status,
		"message": st.Message, "reason": string(st.Reason), "code": int64(st.Code),
	}}, r.Accept)
	if err != nil {
		return err
	}
	return stream.Send(&apiv1.WatchResponse{Events: []*apiv1.WatchEvent{{Type: "ERROR", Object: data}}})
}
