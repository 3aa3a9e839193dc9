// Package openapi describes the served kinds: the documents behind /openapi/v2 and /openapi/v3, by which kubectl validates,
// explains and merges.
package openapi

//go:generate go tool openapi-gen --go-header-file header.go.txt --output-dir . --output-pkg howdah.dev/services/apiserver/internal/openapi --output-file zz_generated.openapi.go --report-filename /dev/null k8s.io/api/core/v1 k8s.io/api/apps/v1 k8s.io/api/apps/v1beta1 k8s.io/api/apps/v1beta2 k8s.io/api/extensions/v1beta1 k8s.io/api/admissionregistration/v1 k8s.io/api/admissionregistration/v1beta1 k8s.io/api/autoscaling/v1 k8s.io/api/autoscaling/v2 k8s.io/api/batch/v1 k8s.io/api/certificates/v1 k8s.io/api/coordination/v1 k8s.io/api/discovery/v1 k8s.io/api/events/v1 k8s.io/api/flowcontrol/v1 k8s.io/api/networking/v1 k8s.io/api/node/v1 k8s.io/api/rbac/v1 k8s.io/api/resource/v1 k8s.io/api/scheduling/v1 k8s.io/api/storage/v1 k8s.io/api/policy/v1 k8s.io/api/authentication/v1 k8s.io/api/authorization/v1 k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1 k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version k8s.io/apimachinery/pkg/api/resource k8s.io/apimachinery/pkg/util/intstr

import (
	"strings"
	"sync"
	"sync/atomic"

	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

const (
	protobufV2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	protobufV3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

// Documents makes the documents when they are first asked for, and keeps them.
type Documents struct {
	table   *registry.Table
	created []*registry.Resource
	version string
	models  func() *models

	kept kept
	// latest is what there is to tell of the table as it was when somebody asked last.
	latest atomic.Pointer[edition]
}

// New returns the documents of the kinds in the table, and of resources that are only created, as reviews. The version is what they
// say of themselves.
func New(table *registry.Table, created []*registry.Resource, version string) *Documents {
	return &Documents{
		table: table, created: created, version: version,
		models: sync.OnceValue(func() *models { return newModels(table, created) }),
	}
}

// Document implements discovery.Documents.
func (d *Documents) Document(path, _, accept string) ([]byte, string, error) {
	h, media, err := d.document(path, accept)
	if h == nil || err != nil {
		return nil, "", err
	}
	body, err := h.text()
	return body, media, err
}

// Hash returns the hash that names a document. That of a chapter, by which the index names it, is the same in all encodings; it is empty where there is none.
func (d *Documents) Hash(path, accept string) string {
	if name, is := strings.CutPrefix(path, v3Prefix); is {
		c, found := d.edition().chapters[name]
		if !found {
			return ""
		}
		hash, err := d.hash(name, c)
		if err != nil { // the document itself tells
			return ""
		}
		return hash
	}
	h, _, err := d.document(path, accept)
	if h == nil || err != nil {
		return ""
	}
	return h.hash
}

// document returns a document and its media type; nil where there is none at the path.
func (d *Documents) document(path, accept string) (*held, string, error) {
	switch {
	case path == "/openapi/v2":
		binary, err := form(accept, protobufV2)
		if err != nil {
			return nil, "", err
		}
		return d.whole(binary)
	case path == "/openapi/v3":
		h, err := d.edition().index()
		return h, "text/plain; charset=utf-8", err // as Kubernetes calls it
	case strings.HasPrefix(path, v3Prefix):
		c, ok := d.edition().chapters[strings.TrimPrefix(path, v3Prefix)]
		if !ok {
			return nil, "", nil
		}
		binary, err := form(accept, protobufV3)
		if err != nil {
			return nil, "", err
		}
		return d.encoded(path, binary, c)
	}
	return nil, "", nil
}

// MediaV2 is the media type of the document of version 2 that an Accept header asks for.
func MediaV2(accept string) (string, error) {
	binary, err := form(accept, protobufV2)
	if err != nil || !binary {
		return "application/json", err
	}
	return protobufV2, nil
}

// form is what an Accept header asks for: JSON or the protobuf, whose older name, which is no media type, has a @ in it. A document that can be neither is refused
// with 406.
func form(accept, protobuf string) (binary bool, err error) {
	if accept == "" {
		return false, nil
	}
	for _, wish := range codec.Wishes(strings.ReplaceAll(accept, "@v1.0+", ".v1.0+")) {
		switch wish.Media {
		case protobuf:
			return true, nil
		case "application/json", "application/*", "*/*":
			return false, nil
		}
	}
	return false, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 406, Reason: metav1.StatusReasonNotAcceptable}}
}

// encoded is a chapter as JSON or protobuf. One of custom kinds is about definitions as they are now, and is made anew when they change.
func (d *Documents) encoded(path string, binary bool, c chapter) (*held, string, error) {
	text, err := d.kept.once(path, c.about, c.build)
	if err != nil || !binary {
		return text, "application/json", err
	}
	h, err := d.kept.once(path+" protobuf", c.about, func() ([]byte, error) {
		body, err := text.text()
		if err != nil {
			return nil, err
		}
		m, err := openapi_v3.ParseDocument(body)
		if err != nil {
			return nil, err
		}
		return proto.Marshal(m)
	})
	return h, protobufV3, err
}
