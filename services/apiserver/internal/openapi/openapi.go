// Package openapi describes the served kinds: the documents behind /openapi/v2 and /openapi/v3, by which kubectl validates,
// explains and merges.
package openapi

//go:generate go tool openapi-gen --go-header-file header.go.txt --output-dir . --output-pkg howdah.dev/services/apiserver/internal/openapi --output-file zz_generated.openapi.go --report-filename /dev/null k8s.io/api/core/v1 k8s.io/api/apps/v1 k8s.io/api/apps/v1beta1 k8s.io/api/apps/v1beta2 k8s.io/api/extensions/v1beta1 k8s.io/api/admissionregistration/v1 k8s.io/api/admissionregistration/v1beta1 k8s.io/api/autoscaling/v1 k8s.io/api/autoscaling/v2 k8s.io/api/batch/v1 k8s.io/api/certificates/v1 k8s.io/api/coordination/v1 k8s.io/api/discovery/v1 k8s.io/api/events/v1 k8s.io/api/flowcontrol/v1 k8s.io/api/networking/v1 k8s.io/api/node/v1 k8s.io/api/rbac/v1 k8s.io/api/resource/v1 k8s.io/api/scheduling/v1 k8s.io/api/storage/v1 k8s.io/api/policy/v1 k8s.io/api/authentication/v1 k8s.io/api/authorization/v1 k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1 k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version k8s.io/apimachinery/pkg/api/resource k8s.io/apimachinery/pkg/util/intstr

import (
	"fmt"
	"strings"
	"sync"

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

	mu   sync.Mutex
	made map[string][]byte
	// kept are documents of custom kinds.
	kept kept
}

// New returns the documents of the kinds in the table, and of resources that are only created, as reviews. The version is what they
// say of themselves.
func New(table *registry.Table, created []*registry.Resource, version string) *Documents {
	return &Documents{
		table: table, created: created, version: version, made: map[string][]byte{},
		models: sync.OnceValue(func() *models { return newModels(table, created) }),
	}
}

// Document implements discovery.Documents.
func (d *Documents) Document(path, _, accept string) ([]byte, string, error) {
	switch {
	case path == "/openapi/v2":
		binary, err := form(accept, protobufV2)
		if err != nil {
			return nil, "", err
		}
		return d.whole(binary)
	case path == "/openapi/v3":
		b, err := d.index()
		return b, "text/plain; charset=utf-8", err // as Kubernetes calls it
	case strings.HasPrefix(path, v3Prefix):
		c, ok := d.chapters()[strings.TrimPrefix(path, v3Prefix)]
		if !ok {
			return nil, "", nil
		}
		binary, err := form(accept, protobufV3)
		if err != nil {
			return nil, "", err
		}
		return d.encoded(path, binary, protobufV3, c.about, c.build,
			func(b []byte) (proto.Message, error) { return openapi_v3.ParseDocument(b) })
	}
	return nil, "", nil
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

// encoded is a document as JSON or protobuf. A custom document is about definitions as they are now, and is made anew when they change.
func (d *Documents) encoded(path string, binary bool, media, about string, build func() ([]byte, error), parse func([]byte) (proto.Message, error)) ([]byte, string, error) {
	once := d.once
	if about != "" {
		once = func(key string, build func() ([]byte, error)) ([]byte, error) { return d.kept.once(key, about, build) }
	}
	text, err := once(path, build)
	if err != nil || !binary {
		return text, "application/json", err
	}
	b, err := once(path+" protobuf", func() ([]byte, error) {
		m, err := parse(text)
		if err != nil {
			return nil, err
		}
		return proto.Marshal(m)
	})
	return b, media, err
}

func (d *Documents) once(key string, build func() ([]byte, error)) ([]byte, error) {
	d.mu.Lock()
	b, ok := d.made[key]
	d.mu.Unlock()
	if ok {
		return b, nil
	}
	b, err := build()
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("openapi: %w", err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made[key] = b
	return b, nil
}
