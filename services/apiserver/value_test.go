package apiserver

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// local returns a client of the fixture's server over a wire within the process.
func (f *fixture) local() apiv1.ObjectServiceClient {
	wire, server := rpc.NewLocal(), rpc.NewServer(nil, nil)
	f.server.Register(server)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.ServeLocal(ctx, wire) }()
	f.t.Cleanup(func() { cancel(); <-done })
	return apiv1.NewObjectServiceClient(wire.Dial(rpc.User{Name: "admin", Groups: []string{"system:masters"}}))
}

const podToShare = `{"metadata":{"name":"p","labels":{"app":"a"},"annotations":{},"finalizers":["example.com/hold"]},"spec":{
	"tolerations":[],"nodeSelector":{},"serviceAccountName":"","containers":[{"name":"c","image":"i","command":[],
	"env":[{"name":"A","value":"1"}],"resources":{"requests":{"cpu":"0.1","memory":"1024Ki"},"limits":{"cpu":"1000m"}},
	"livenessProbe":{"httpGet":{"port":80}}}]}}`

// TestSharedObjects holds that the objects which clients in the process are given are those that others decode: of creations,
// changes of all sorts, and deletions.
func TestSharedObjects(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	if _, err := f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	partial := object.ContentType + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	const (
		whole = iota
		metadata
		another // type than the one that is given
	)
	local := f.local()
	for name, c := range map[string]struct {
		group, resource, body, patch string
		sample                       any
		accept                       string
		way                          int
		decode                       func(b []byte) (any, error)
	}{
		"pods": {"", "pods", podToShare, `{"status":{"phase":"Running","podIPs":[],"conditions":[{"type":"Ready","status":"True"}]}}`, &corev1.Pod{}, object.ContentType, whole,
			func(b []byte) (any, error) { return object.Decode(object.Pod, b) }},
		"deployments": {"apps", "deployments", `{"metadata":{"name":"p","finalizers":["example.com/hold"]},"spec":{"strategy":{"rollingUpdate":{"maxSurge":"20%"}},
			"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
			`{"status":{"replicas":1,"conditions":[]}}`, &appsv1.Deployment{}, object.ContentType, whole,
			func(b []byte) (any, error) { return object.Decode(object.Deployment, b) }},
		"metadata of config maps": {"", "configmaps", `{"metadata":{"name":"p","finalizers":["example.com/hold"]},"data":{"a":"b"},"binaryData":{}}`, "", &metav1.PartialObjectMetadata{}, partial, metadata,
			func(b []byte) (any, error) {
				return object.Decode(object.Metadata(object.ConfigMap.GVK, "configmaps", true), b)
			}},
		"what is of another type": {"", "secrets", `{"metadata":{"name":"p","finalizers":["example.com/hold"]}}`, "", &corev1.Pod{}, object.ContentType, another,
			func(b []byte) (any, error) { return object.Decode(object.Secret, b) }},
	} {
		version := "v1"
		request := &apiv1.WatchRequest{Group: c.group, Version: version, Resource: c.resource, Namespace: "default", Accept: c.accept}
		values := rpc.TakeValues(c.sample)
		given, err := local.Watch(ctx, request, values)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := f.api.Watch(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		for _, stream := range []interface {
			Recv() (*apiv1.WatchResponse, error)
		}{given, plain} {
			if _, err := stream.Recv(); err != nil { // the watch stands
				t.Fatal(err)
			}
		}
		write := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(name, err)
			}
		}
		prefix := version + "/"
		if c.group != "" {
			prefix = c.group + "/" + prefix
		}
		_, err = f.create(prefix+c.resource, "default", c.body)
		write(err)
		patch := func(subresource, body string) {
			_, err := f.api.Patch(ctx, &apiv1.PatchRequest{Group: c.group, Version: version, Resource: c.resource, Namespace: "default", Name: "p",
				Subresource: subresource, ContentType: "application/merge-patch+json", Object: []byte(body)})
			write(err)
		}
		patch("", `{"metadata":{"labels":{"b":"c"}}}`)
		want := 4
		if c.patch != "" {
			patch("status", c.patch)
			want++
		}
		_, err = f.api.Delete(ctx, &apiv1.DeleteRequest{Group: c.group, Version: version, Resource: c.resource, Namespace: "default", Name: "p"})
		write(err)
		patch("", `{"metadata":{"finalizers":null}}`)
		others := &events{stream: plain}
		for n := 0; n < want; {
			mine, err := given.Recv()
			write(err)
			shared := values.Last()
			for i, e := range mine.GetEvents() {
				theirs := others.next(t)
				decoded, err := c.decode(theirs.GetObject())
				write(err)
				if e.GetType() != theirs.GetType() || e.GetRevision() != theirs.GetRevision() {
					t.Errorf("%s, event %d: %s at %d, and for others %s at %d", name, n, e.GetType(), e.GetRevision(), theirs.GetType(), theirs.GetRevision())
				}
				n++
				if c.way == another {
					if i < len(shared) && shared[i] != nil || string(e.GetObject()) != string(theirs.GetObject()) {
						t.Errorf("%s, event %d: an object of type %T, and %d bytes", name, n, shared, len(e.GetObject()))
					}
					continue
				}
				if i >= len(shared) || len(e.GetObject()) > 0 {
					t.Fatalf("%s, event %d: no object, or bytes beside it", name, n)
				}
				if !apiequality.Semantic.DeepEqual(shared[i], decoded) {
					t.Errorf("%s, event %d: the object is %v, and for others %v", name, n, shared[i], decoded)
				}
				if a, b := text(t, shared[i]), text(t, decoded); a != b {
					t.Errorf("%s, event %d: the object is\n%s, and for others\n%s", name, n, a, b)
				}
			}
		}
	}
}

// events are those of a watch, one by one, however they are put together.
type events struct {
	stream interface {
		Recv() (*apiv1.WatchResponse, error)
	}
	rest []*apiv1.WatchEvent
}

func (e *events) next(t *testing.T) *apiv1.WatchEvent {
	t.Helper()
	for len(e.rest) == 0 {
		response, err := e.stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		e.rest = response.GetEvents()
	}
	event := e.rest[0]
	e.rest = e.rest[1:]
	return event
}

func text(t *testing.T, obj any) string {
	t.Helper()
	b, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
