package openapi

import (
	"maps"
	"sort"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"
	friendly "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"howdah.dev/services/apiserver/internal/openapi/older"
	"howdah.dev/services/apiserver/internal/registry"
)

const gvkExtension = "x-kubernetes-group-version-kind"

// named is what generated types tell of themselves.
type named interface{ OpenAPIModelName() string }

// others are the kinds that are no resources.
var others = []struct {
	gvk schema.GroupVersionKind
	obj any
}{
	{scaleGVK, autoscalingv1.Scale{}},
	{evictionGVK, policyv1.Eviction{}},
	{tokenGVK, authenticationv1.TokenRequest{}},
	{metaKind("Status"), metav1.Status{}},
	{metaKind("APIVersions"), metav1.APIVersions{}},
	{metaKind("APIGroup"), metav1.APIGroup{}},
	{metaKind("APIGroupList"), metav1.APIGroupList{}},
	{metaKind("APIResourceList"), metav1.APIResourceList{}},
}

func metaKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: kind}
}

// elsewhere are the versions that Kubernetes knows and client-go does not.
var elsewhere = []schema.GroupVersion{
	{Group: "admission.k8s.io", Version: "v1"}, {Group: "admission.k8s.io", Version: "v1beta1"},
	{Group: "apiextensions.k8s.io", Version: "v1beta1"}, {Group: "apiregistration.k8s.io", Version: "v1beta1"},
	{Group: "imagepolicy.k8s.io", Version: "v1alpha1"},
}

// models are the schemas of all types, by name, in both versions of OpenAPI.
type models struct {
	v2, v3 map[string]spec.Schema
	deps   map[string][]string
	kinds  map[schema.GroupVersionKind]string
	// custom are the names of the models of custom kinds that a document is about.
	custom map[schema.GroupVersionKind]string
}

func newModels(table *registry.Table, created []*registry.Resource) *models {
	m := &models{v2: map[string]spec.Schema{}, v3: map[string]spec.Schema{}, deps: map[string][]string{}, kinds: map[schema.GroupVersionKind]string{}}
	gvks := m.names(table, created)
	for version, prefix := range map[int]string{2: "#/definitions/", 3: "#/components/schemas/"} {
		ref := func(name string) spec.Ref { return spec.MustCreateRef(prefix + modelName(name)) }
		definitions := GetOpenAPIDefinitions(ref)
		maps.Copy(definitions, older.GetOpenAPIDefinitions(ref))
		for name, d := range definitions {
			s := d.Schema
			if list := gvks[name]; len(list) > 0 {
				s.Extensions = extend(s.Extensions, list)
			}
			m.deps[name] = nil
			for _, dependency := range d.Dependencies {
				m.deps[name] = append(m.deps[name], modelName(dependency))
			}
			if version == 3 {
				m.v3[name] = modern(s)
			} else {
				m.v2[name] = legacy(s)
			}
		}
	}
	return m
}

// modelName is the name of a type's model. What a generated file names of the types that it does not describe itself, it
// names by their Go path.
func modelName(name string) string {
	if strings.Contains(name, "/") {
		return friendly.ToRESTFriendlyName(name)
	}
	return name
}

// names notes which model each kind is, and returns the kinds of each model.
func (m *models) names(table *registry.Table, created []*registry.Resource) map[string][]schema.GroupVersionKind {
	gvks := map[string][]schema.GroupVersionKind{}
	note := func(gvk schema.GroupVersionKind, obj any) {
		if _, seen := m.kinds[gvk]; seen {
			return
		}
		if n, ok := obj.(named); ok {
			m.kinds[gvk] = n.OpenAPIModelName()
			gvks[m.kinds[gvk]] = append(gvks[m.kinds[gvk]], gvk)
		}
	}
	groups := map[schema.GroupVersion]bool{}
	for _, r := range table.Resources() {
		if r.Kind.Custom != nil {
			continue
		}
		note(r.GVK, deref(r.New()))
		note(r.GVK.GroupVersion().WithKind(r.ListKind), deref(r.NewList()))
		for _, a := range r.Kind.Actions {
			if _, seen := m.kinds[a.GVK]; !seen {
				note(a.GVK, deref(a.New()))
			}
		}
		groups[r.GVK.GroupVersion()] = true
	}
	for _, r := range created {
		note(r.GVK, deref(r.Kind.New()))
		if r.Kind.NewList != nil {
			note(r.GVK.GroupVersion().WithKind(r.ListKind), deref(r.NewList()))
		}
	}
	for _, k := range others {
		note(k.gvk, k.obj)
	}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version != runtime.APIVersionInternal {
			groups[gvk.GroupVersion()] = true
		}
	}
	for _, gv := range elsewhere {
		groups[gv] = true
	}
	for gv := range groups { // every group has options of deletion
		note(gv.WithKind("DeleteOptions"), metav1.DeleteOptions{})
		note(gv.WithKind("WatchEvent"), metav1.WatchEvent{})
	}
	for name := range gvks {
		sort.Slice(gvks[name], func(i, j int) bool { return gvks[name][i].String() < gvks[name][j].String() })
	}
	return gvks
}

func extend(old spec.Extensions, gvks []schema.GroupVersionKind) spec.Extensions {
	list := make([]any, 0, len(gvks))
	for _, g := range gvks {
		list = append(list, map[string]any{"group": g.Group, "version": g.Version, "kind": g.Kind})
	}
	out := spec.Extensions{gvkExtension: list}
	for k, v := range old {
		out[k] = v
	}
	return out
}

// legacy is a schema as version 2 has it: without defaults, and of the form that a type keeps for it.
func legacy(s spec.Schema) spec.Schema {
	if old, ok := s.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
		gvk := s.Extensions[gvkExtension]
		s = old
		if gvk != nil {
			s.AddExtension(gvkExtension, gvk)
		}
	}
	return *each(&s, func(s *spec.Schema) *spec.Schema {
		s.Default = nil
		if s.Ref.String() != "" { // nothing but a description and extensions may stand beside a reference
			return &spec.Schema{SchemaProps: spec.SchemaProps{Ref: s.Ref, Description: s.Description}, VendorExtensible: s.VendorExtensible}
		}
		return s
	})
}

// modern is a schema as version 3 has it: what stands beside a reference is kept.
func modern(s spec.Schema) spec.Schema {
	if _, ok := s.Extensions[common.ExtensionV2Schema]; ok {
		kept := spec.Extensions{}
		for k, v := range s.Extensions {
			if k != common.ExtensionV2Schema {
				kept[k] = v
			}
		}
		s.Extensions = kept
	}
	return *each(&s, func(s *spec.Schema) *spec.Schema { return util.WrapRefs(s) })
}

// each rebuilds a schema with f applied to every schema in it.
func each(s *spec.Schema, f func(*spec.Schema) *spec.Schema) *spec.Schema {
	out := *s
	if s.Properties != nil {
		out.Properties = make(map[string]spec.Schema, len(s.Properties))
		for name, p := range s.Properties {
			out.Properties[name] = *f(each(&p, f))
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		out.Items = &spec.SchemaOrArray{Schema: f(each(s.Items.Schema, f))}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		out.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: f(each(s.AdditionalProperties.Schema, f))}
	}
	return &out
}

// reachable returns the schemas that the roots need.
func (m *models) reachable(roots map[string]bool, version int) map[string]spec.Schema {
	all := m.v3
	if version == 2 {
		all = m.v2
	}
	out := map[string]spec.Schema{}
	var walk func(name string)
	walk = func(name string) {
		if _, done := out[name]; done {
			return
		}
		s, ok := all[name]
		if !ok {
			return
		}
		out[name] = s
		for _, d := range m.deps[name] {
			walk(d)
		}
	}
	for name := range roots {
		walk(name)
	}
	return out
}

// name is that of the model of a kind.
func (m *models) name(gvk schema.GroupVersionKind) model {
	if name, ok := m.custom[gvk]; ok {
		return model(name)
	}
	return model(m.kinds[gvk])
}

func deref(obj any) any {
	if n, ok := obj.(named); ok {
		return n
	}
	return obj
}
