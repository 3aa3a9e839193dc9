// Package remote knows which group versions extension API servers serve, so that requests for them are passed on whole.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"howdah.dev/kit/obs"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// The user and the group that a gateway speaks for when it asks for itself.
const (
	user  = "howdah:gateway"
	group = "howdah:gateways"
)

// prefix begins the paths of group versions that extension API servers may serve.
const prefix = "/apis/"

// patience is how long a request waits at the start until it is known who serves it.
const patience = 5 * time.Second

// Objects is what the package needs of the object service.
type Objects interface {
	List(ctx context.Context, req *apiv1.ListRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[apiv1.ListResponse], error)
	Watch(ctx context.Context, req *apiv1.WatchRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[apiv1.WatchResponse], error)
}

// Set follows the APIServices.
type Set struct {
	objects Objects

	first chan struct{} // closed once they have been listed
	known sync.Once

	mu     sync.RWMutex
	byName map[string]groupVersion // of those that have a Service
}

type groupVersion struct{ group, version string }

// apiService is what matters of an APIService.
type apiService struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		Group   string          `json:"group"`
		Version string          `json:"version"`
		Service json.RawMessage `json:"service"`
	} `json:"spec"`
}

// New returns an empty set; Run fills it.
func New(objects Objects) *Set {
	return &Set{objects: objects, first: make(chan struct{}), byName: map[string]groupVersion{}}
}

// Await waits until it is known whether an extension API server serves the path, and reports whether it is. Before that a group version is not
// to be told absent: who believes it forgets what the server has.
func (s *Set) Await(ctx context.Context, path string) bool {
	if !strings.HasPrefix(path, prefix) {
		return true
	}
	select {
	case <-s.first:
		return true
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-s.first:
		return true
	case <-ctx.Done():
		return false
	}
}

// Match returns the group and version of a path that an extension API server serves: /apis/<group>/<version> and all below.
func (s *Set) Match(path string) (group, version string, ok bool) {
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return "", "", false
	}
	group, rest, ok = strings.Cut(rest, "/")
	if !ok {
		return "", "", false
	}
	version, _, _ = strings.Cut(rest, "/")
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, gv := range s.byName { // there are few
		if gv.group == group && gv.version == version {
			return group, version, true
		}
	}
	return "", "", false
}

// Run follows the APIServices until ctx ends. What is known stays known while the API server cannot be asked.
func (s *Set) Run(ctx context.Context) {
	ctx = metadata.AppendToOutgoingContext(obs.Untraced(ctx), "howdah-user", user, "howdah-group", group)
	const least, most = 200 * time.Millisecond, 10 * time.Second
	for wait := least; ; wait = min(2*wait, most) {
		began := time.Now()
		err := s.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > most {
			wait = least
		}
		if err != nil {
			slog.DebugContext(ctx, "follow the APIServices", "err", err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// follow lists, and then watches until the watch ends.
func (s *Set) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	revision, err := s.list(ctx)
	if err != nil {
		return err
	}
	stream, err := s.objects.Watch(ctx, &apiv1.WatchRequest{
		Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices", ResourceVersion: revision, Accept: "application/json", AllowWatchBookmarks: true,
	})
	if err != nil {
		return err
	}
	for {
		response, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range response.GetEvents() {
			switch e.GetType() {
			case "ADDED", "MODIFIED", "DELETED":
				var object apiService
				if err := json.Unmarshal(e.GetObject(), &object); err != nil {
					return fmt.Errorf("decode an APIService: %w", err)
				}
				s.apply(&object, e.GetType() == "DELETED")
			case "ERROR":
				return fmt.Errorf("the watch failed: %s", e.GetObject())
			}
		}
	}
}

func (s *Set) list(ctx context.Context) (revision string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stream, err := s.objects.List(ctx, &apiv1.ListRequest{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices", Accept: "application/json"})
	if err != nil {
		return "", err
	}
	var body []byte
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		body = append(body, piece.GetObject()...)
	}
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []apiService `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return "", fmt.Errorf("decode the APIServices: %w", err)
	}
	fresh := map[string]groupVersion{}
	for i := range list.Items {
		if gv, ok := list.Items[i].remote(); ok {
			fresh[list.Items[i].Metadata.Name] = gv
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName = fresh
	s.known.Do(func() { close(s.first) })
	return list.Metadata.ResourceVersion, nil
}

func (a *apiService) remote() (groupVersion, bool) {
	has := len(a.Spec.Service) > 0 && string(a.Spec.Service) != "null"
	return groupVersion{a.Spec.Group, a.Spec.Version}, has && a.Spec.Group != ""
}

func (s *Set) apply(object *apiService, gone bool) {
	gv, remote := object.remote()
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone || !remote {
		delete(s.byName, object.Metadata.Name)
		return
	}
	s.byName[object.Metadata.Name] = gv
}
