package custom

import (
	"fmt"
	"slices"
	"sort"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	apiversion "k8s.io/apimachinery/pkg/version"

	"howdah.dev/services/apiserver/internal/registry"
)

// version is one version of a kind; it implements registry.Custom.
type version struct {
	*family
	name string
	// raw reads objects in whatever version they are stored.
	raw        bool
	deprecated string
	status     bool
	scale      *apiextensionsv1.CustomResourceSubresourceScale
	columns    []column
	selectable []string // JSON paths
	schema     func() (*compiled, error)
}

var _ registry.Custom = (*version)(nil)

func newVersion(f *family, v *apiextensionsv1.CustomResourceDefinitionVersion) *version {
	out := &version{family: f, name: v.Name, columns: columnsOf(v.AdditionalPrinterColumns)}
	if v.Deprecated {
		if out.deprecated = fmt.Sprintf("%s/%s %s is deprecated", f.group, v.Name, f.names.Kind); v.DeprecationWarning != nil {
			out.deprecated = *v.DeprecationWarning
		}
	}
	if s := v.Subresources; s != nil {
		out.status, out.scale = s.Status != nil, s.Scale.DeepCopy()
	}
	for _, s := range v.SelectableFields {
		out.selectable = append(out.selectable, s.JSONPath)
	}
	out.schema = sync.OnceValues(func() (*compiled, error) { return compile(f, v.Name) })
	return out
}

// replacements completes the deprecation warnings of versions that name none of their own with the newest version to use instead.
func replacements(f *family, versions []apiextensionsv1.CustomResourceDefinitionVersion) {
	for _, v := range versions {
		if !v.Deprecated || v.DeprecationWarning != nil {
			continue
		}
		var better []string
		for _, other := range versions {
			if other.Served && !other.Deprecated && apiversion.CompareKubeAwareVersionStrings(v.Name, other.Name) < 0 {
				better = append(better, other.Name)
			}
		}
		if len(better) == 0 {
			continue
		}
		sort.Slice(better, func(i, j int) bool { return apiversion.CompareKubeAwareVersionStrings(better[i], better[j]) > 0 })
		f.versions[v.Name].deprecated += fmt.Sprintf("; use %s/%s %s", f.group, better[0], f.names.Kind)
	}
}

func (v *version) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: v.group, Version: v.name, Kind: v.names.Kind}
}

// Stored implements registry.Custom.
func (v *version) Stored() bool { return v.raw || v.name == v.storage }

// Remote implements registry.Custom.
func (v *version) Remote() bool { return v.converter != nil && !v.raw }

// Fingerprint implements registry.Custom.
func (v *version) Fingerprint() string { return v.fingerprint + "/" + v.name }

// Terminating implements registry.Custom.
func (v *version) Terminating() bool { return v.terminating.Load() }

// StoredAs implements registry.Custom.
func (v *version) StoredAs() string { return v.storage }

// GVKs implements registry.Custom.
func (v *version) GVKs() []schema.GroupVersionKind { return v.gvks }

// Types implements registry.Custom.
func (v *version) Types() (managedfields.TypeConverter, error) { return v.types() }

// kind is the version as a row of the registry's table.
func (v *version) kind() *registry.Kind {
	gvk := v.gvk()
	k := &registry.Kind{
		GVK: gvk, Resource: v.names.Plural, Singular: v.names.Singular, ListKind: v.names.ListKind,
		ShortNames: slices.Clone(v.names.ShortNames), Categories: slices.Clone(v.names.Categories), Namespaced: v.namespaced,
		Custom: v, Deprecated: v.deprecated, NeedsRevision: true,
		New: func() registry.Object {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetGroupVersionKind(gvk)
			return u
		},
		NewList: func() runtime.Object {
			l := &unstructured.UnstructuredList{Object: map[string]any{}}
			l.SetGroupVersionKind(gvk.GroupVersion().WithKind(v.names.ListKind))
			return l
		},
		Default:        v.fill,
		PrepareCreate:  v.prepareCreate,
		PrepareUpdate:  v.prepareUpdate,
		ValidateCreate: v.validateCreate,
		ValidateUpdate: v.validateUpdate,
		Tolerates:      v.tolerates,
		Warnings:       finalizers,
		SelectableFields: func(obj registry.Object) fields.Set {
			return selectableFields(v.selectable, obj)
		},
	}
	k.Columns, k.Cells = v.table()
	if v.status {
		k.Status = &registry.Status{PrepareUpdate: prepareStatus, ValidateUpdate: v.validateStatus, Tolerates: v.toleratesStatus}
	}
	if v.scale != nil {
		k.Scale = v.scaling()
	}
	return k
}
