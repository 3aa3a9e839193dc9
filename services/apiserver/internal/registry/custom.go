package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Custom is what one version of a custom kind has in place of a Go type. Its objects are *unstructured.Unstructured, and
// are stored as JSON in the version that was the storage version when they were written.
type Custom interface {
	// Decode returns the objects of stored values in this version, pruned and defaulted, without resourceVersions. Those that are
	// stored in another version are converted, all in one call where that takes a webhook. An error is that of its value.
	Decode(ctx context.Context, values [][]byte) ([]Object, []error)
	// Answer appends the JSON of a stored value as this version shows it, with a resourceVersion, which is what decoding and encoding it gives.
	// ok is false where it takes that to know.
	Answer(to, value []byte, revision string) (out []byte, ok bool)
	// Encode returns the stored form of an object of this version, without its resourceVersion.
	Encode(ctx context.Context, obj Object) ([]byte, error)
	// Convert returns an object of any version of the kind in this one; it may be the same object.
	Convert(ctx context.Context, obj Object) (Object, error)
	// ConvertWhole returns an object of any version of the kind in another one, which must be among GVKs but need not be served. It keeps what the
	// schema there does not know: those who track fields have to be told of it.
	ConvertWhole(ctx context.Context, obj Object, to schema.GroupVersionKind) (Object, error)
	// Stored reports that objects are stored in this version.
	Stored() bool
	// StoredAs is the version that objects are stored in.
	StoredAs() string
	// Remote reports that conversion calls a webhook, so that it must not happen under a lock.
	Remote() bool
	// Fit drops what the schema does not know and returns, where it is asked for, the paths of that. It fails on metadata of the
	// wrong types.
	Fit(obj Object, report bool) (unknown []string, err error)
	// Sound reports that an object is read again just as it is: it has all defaults, the types of the schema and nothing unknown. It is sure only
	// where it says so.
	Sound(obj Object) bool
	// Settle returns an object whose metadata are as their Go type writes them, which leaves out what is empty. It leaves obj as it is.
	Settle(obj Object) (Object, error)
	// Types tells the field managers what the fields are.
	Types() (managedfields.TypeConverter, error)
	// Schema is the version's for OpenAPI 2 or 3, without metadata and the like; nil where none is published.
	Schema(openAPI int) *spec.Schema
	// Fingerprint names the state of the definition that the version was made of: where it differs, the schema may.
	Fingerprint() string
	// Terminating reports that the definition is being deleted: no object may be created.
	Terminating() bool
	// GVKs are the kinds of all versions.
	GVKs() []schema.GroupVersionKind
}
