package apiserver

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

const (
	plainMaps = "v1/configmaps"
	encodings = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
	unrouted  = "415: Unsupported Media Type"
	unknown   = "the body of the request was in an unknown format - accepted media types include: "
)

// What is offered, and what is told of it, is Kubernetes' default where the gate is off, and names CBOR where it is on.
func TestOffersOfCBOR(t *testing.T) {
	for name, c := range map[string]struct {
		on        bool
		encodings string
	}{
		"off": {false, encodings},
		"on":  {true, encodings + ", application/cbor"},
	} {
		f := startMemory(t, func(cfg *Config) { cfg.CBOR = c.on })
		if _, err := f.create(plainMaps, "default", `{"metadata":{"name":"a"}}`); err != nil {
			t.Fatal(err)
		}
		_, _, err := f.getAs(plainMaps, "default", "a", "", "text/html")
		if s := apistatus.Of(err); s.Code != 406 || s.Message != "406: Not Acceptable\n\nAvailable representations: "+c.encodings {
			t.Errorf("%s: Accept: %+v", name, s)
		}
		_, err = f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Object: []byte("x"), ContentType: "text/plain"})
		if s := apistatus.Of(err); s.Code != 415 || s.Message != unknown+c.encodings {
			t.Errorf("%s: Content-Type: %+v", name, s)
		}
		_, err = f.change(plainMaps, "default", "a", "x-unknown", "{}")
		if s := apistatus.Of(err); s.Code != 415 || s.Message != unrouted {
			t.Errorf("%s: patch: %+v", name, s)
		}
		body, err := direct.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": "v"}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.change(plainMaps, "default", "a", "apply-patch+cbor", string(body), func(r *apiv1.PatchRequest) { r.FieldManager = "m" })
		if s := apistatus.Of(err); c.on && err != nil || !c.on && (s.Code != 415 || s.Message != unrouted) {
			t.Errorf("%s: apply: %+v", name, s)
		}
		_, contentType, err := f.getAs(plainMaps, "default", "a", "", "application/cbor")
		if c.on && (err != nil || contentType != "application/cbor") || !c.on && apistatus.Of(err).Code != 406 {
			t.Errorf("%s: %s, %v", name, contentType, err)
		}
	}
}

// A watch in CBOR brings metadata and bookmarks as it does in JSON; tables are in JSON and YAML alone.
func TestFormsOfWatchesInCBOR(t *testing.T) {
	f := startMemory(t, func(cfg *Config) { cfg.CBOR = true })
	if _, err := f.create(plainMaps, "default", `{"metadata":{"name":"a"}}`); err != nil {
		t.Fatal(err)
	}
	for as, kind := range map[string]string{
		"": "ConfigMap", ";as=Table;v=v1;g=meta.k8s.io, application/cbor": "ConfigMap", ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io": "PartialObjectMetadata",
	} {
		stream, err := f.api.Watch(f.ctx, &apiv1.WatchRequest{
			Version: "v1", Resource: "configmaps", Namespace: "default", FieldSelector: "metadata.name=a", Accept: "application/cbor" + as,
			AllowWatchBookmarks: true, SendInitialEvents: "true", ResourceVersionMatch: "NotOlderThan", TimeoutSeconds: 60,
		})
		if err != nil {
			t.Fatal(err)
		}
		for seen := 0; seen < 2; {
			response, err := stream.Recv()
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			for _, e := range response.GetEvents() {
				if want := []string{"ADDED", "BOOKMARK"}[min(seen, 1)]; e.GetType() != want {
					t.Errorf("%s: %s, wanted %s", kind, e.GetType(), want)
				}
				seen++
				var got map[string]any
				if err := direct.Unmarshal(e.GetObject(), &got); err != nil || got["kind"] != kind {
					t.Errorf("%s in %s: %v, %v", kind, e.GetType(), got, err)
				}
			}
		}
	}
}
