// Package custom makes kinds of CustomResourceDefinitions. What is expensive of a kind, its schema above all, is compiled when
// the first object needs it: a cluster may have hundreds of definitions of which a few are used.
package custom

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"howdah.dev/services/apiserver/internal/registry"
)

// Config is what all custom kinds need.
type Config struct {
	// Now is the clock of ages in tables.
	Now func() time.Time
	// Converter returns what converts the objects of a definition that names a webhook.
	Converter func(d *apiextensionsv1.CustomResourceDefinition) Converter
	// Meta returns the OpenAPI 3 models of object metadata, by name: what the field managers track it by.
	Meta func() map[string]*spec.Schema
}

// Converter converts objects between the versions of a kind.
type Converter interface {
	// Convert returns the objects in a version, in order. They may be of several others.
	Convert(ctx context.Context, objects []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error)
}

// Source reads a definition anew, schemas and all, for one use.
type Source func() (*apiextensionsv1.CustomResourceDefinition, error)

// family is a kind with all its versions.
type family struct {
	Config
	group                string
	names                apiextensionsv1.CustomResourceDefinitionNames
	namespaced           bool
	storage, fingerprint string
	preserve             bool
	terminating          atomic.Bool
	versions             map[string]*version
	gvks                 []schema.GroupVersionKind
	converter            Converter
	source               Source
	types                func() (managedfields.TypeConverter, error)
}

// New returns the kind of a definition; source reads it again. Its versions are served only if the definition is established.
// Nothing of d is kept that is large.
func New(cfg Config, d *apiextensionsv1.CustomResourceDefinition, established, terminating bool, source Source) registry.CustomKind {
	f := &family{
		Config: cfg, group: d.Spec.Group, names: *d.Status.AcceptedNames.DeepCopy(), namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped,
		preserve: d.Spec.PreserveUnknownFields, versions: map[string]*version{}, source: source,
	}
	f.terminating.Store(terminating)
	if !established || f.names.Plural == "" {
		f.names = *d.Spec.Names.DeepCopy()
	}
	f.fingerprint = fmt.Sprintf("%s/%d/%s", d.UID, d.Generation, strings.Join([]string{f.names.Plural, f.names.Kind, f.names.ListKind}, "/"))
	f.types = sync.OnceValues(f.newTypes)
	if c := d.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter && cfg.Converter != nil {
		f.converter = cfg.Converter(d)
	}
	for i := range d.Spec.Versions {
		v := newVersion(f, &d.Spec.Versions[i])
		f.versions[v.name] = v
		f.gvks = append(f.gvks, v.gvk())
		if d.Spec.Versions[i].Storage || f.storage == "" {
			f.storage = v.name
		}
	}
	replacements(f, d.Spec.Versions)
	custom := registry.CustomKind{Terminate: func() { f.terminating.Store(true) }}
	same := true // all versions select by the same fields
	for i := range d.Spec.Versions {
		v := f.versions[d.Spec.Versions[i].Name]
		same = same && slices.Equal(v.selectable, f.versions[f.storage].selectable)
		if established && d.Spec.Versions[i].Served {
			custom.Versions = append(custom.Versions, v.kind())
			if v.name == f.storage {
				custom.Home = custom.Versions[len(custom.Versions)-1]
			}
		}
	}
	if custom.Home == nil || f.converter != nil || !same {
		custom.Home = f.home().kind()
	}
	return custom
}

// home is the version in which the cache reads objects: the one that they are stored in. It never converts.
func (f *family) home() *version {
	v := *f.versions[f.storage]
	v.raw = f.converter != nil
	v.selectable = nil
	for _, name := range slices.Sorted(maps.Keys(f.versions)) {
		for _, s := range f.versions[name].selectable {
			if !slices.Contains(v.selectable, s) {
				v.selectable = append(v.selectable, s)
			}
		}
	}
	return &v
}

// read returns the definition's version as it is written down.
func (f *family) read(name string) (*apiextensionsv1.CustomResourceDefinitionVersion, error) {
	d, err := f.source()
	if err != nil {
		return nil, err
	}
	for i := range d.Spec.Versions {
		if d.Spec.Versions[i].Name == name {
			return &d.Spec.Versions[i], nil
		}
	}
	return nil, fmt.Errorf("the definition of %s.%s has no version %s", f.names.Plural, f.group, name)
}
