package policystatus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// documentTimeout bounds the request for one document.
const documentTimeout = 10 * time.Second

// documents implements Kinds with what the API says of itself. It is for one policy: it reads each document once, and remembers
// the first error.
type documents struct {
	ctx       context.Context
	client    *object.Client
	resources map[schema.GroupVersion][]metav1.APIResource
	schemas   map[schema.GroupVersion]*spec3.OpenAPI
	// missing says that a kind that is served had no schema: that of a new custom kind follows a moment later.
	missing bool
	err     error
}

func newDocuments(ctx context.Context, client *object.Client) *documents {
	return &documents{ctx: ctx, client: client, resources: map[schema.GroupVersion][]metav1.APIResource{}, schemas: map[schema.GroupVersion]*spec3.OpenAPI{}}
}

func pathOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}

// read reads a document; one that is not there leaves into as it is.
func (d *documents) read(path string, into any) {
	ctx, cancel := context.WithTimeout(d.ctx, documentTimeout)
	defer cancel()
	resp, err := d.client.Discovery().Document(ctx, &apiv1.DocumentRequest{Path: path, Accept: "application/json"})
	if err != nil {
		if err = apistatus.FromGRPC(err); apistatus.Of(err).Code == 404 {
			return
		}
	} else {
		err = json.Unmarshal(resp.GetObject(), into)
	}
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("read %s: %w", path, err)
	}
}

// KindOf implements Kinds.
func (d *documents) KindOf(gvr schema.GroupVersionResource) (schema.GroupVersionKind, bool) {
	for _, r := range d.list(gvr.GroupVersion()) {
		if r.Name == gvr.Resource {
			return gvr.GroupVersion().WithKind(r.Kind), true
		}
	}
	return schema.GroupVersionKind{}, false
}

func (d *documents) list(gv schema.GroupVersion) []metav1.APIResource {
	list, known := d.resources[gv]
	if !known {
		var document metav1.APIResourceList
		d.read("/"+pathOf(gv), &document)
		list = document.APIResources
		d.resources[gv] = list
	}
	return list
}

// absent notes that a kind has no schema, if it is served: parameters may be of a kind that there is not.
func (d *documents) absent(gvk schema.GroupVersionKind) *spec.Schema {
	if slices.ContainsFunc(d.list(gvk.GroupVersion()), func(r metav1.APIResource) bool { return r.Kind == gvk.Kind }) {
		d.missing = true
	}
	return nil
}

// Schema implements Kinds.
func (d *documents) Schema(gvk schema.GroupVersionKind) *spec.Schema {
	gv := gvk.GroupVersion()
	document, known := d.schemas[gv]
	if !known {
		document = &spec3.OpenAPI{}
		d.read("/openapi/v3/"+pathOf(gv), document)
		d.schemas[gv] = document
	}
	if document.Components == nil {
		return d.absent(gvk)
	}
	for name, s := range document.Components.Schemas {
		if !bears(s, gvk) {
			continue
		}
		resolved, err := resolver.PopulateRefs(func(ref string) (*spec.Schema, bool) {
			s, ok := document.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
			return s, ok
		}, name)
		if err == nil {
			return resolved
		}
		if d.err == nil {
			d.err = fmt.Errorf("schema of %s: %w", gvk, err)
		}
	}
	return d.absent(gvk)
}

// bears reports whether a schema is that of a kind.
func bears(s *spec.Schema, gvk schema.GroupVersionKind) bool {
	list, _ := s.Extensions["x-kubernetes-group-version-kind"].([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		if m["group"] == gvk.Group && m["version"] == gvk.Version && m["kind"] == gvk.Kind {
			return true
		}
	}
	return false
}
