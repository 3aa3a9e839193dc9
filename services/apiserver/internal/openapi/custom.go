package openapi

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

const listMetaModel = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"

// about names the definitions of the custom kinds of a group and version, as they are; empty where there are none.
func (d *Documents) about(gv schema.GroupVersion) string {
	var text strings.Builder
	for _, r := range d.table.Resources() {
		if r.Kind.Custom != nil && r.GVK.GroupVersion() == gv {
			fmt.Fprintf(&text, "%s %s\n", r.GVR, r.Kind.Custom.Fingerprint())
		}
	}
	return text.String()
}

// with returns models that know the custom kinds among the resources, and their schemas.
func (m *models) with(resources []*registry.Resource, version int) (*models, map[string]spec.Schema) {
	out, schemas := *m, map[string]spec.Schema{}
	out.custom = map[schema.GroupVersionKind]string{}
	for _, r := range resources {
		if r.Kind.Custom == nil {
			continue
		}
		gv := r.GVK.GroupVersion()
		name, list := m.free(customName(r.GVK)), m.free(customName(gv.WithKind(r.ListKind)))
		out.custom[r.GVK], out.custom[gv.WithKind(r.ListKind)] = name, list
		listed := listOf(r, name, version)
		if s := r.Kind.Custom.Schema(version); s != nil {
			schemas[name] = *s
			if fields, ok := s.Extensions[selectableExtension]; ok {
				listed.AddExtension(selectableExtension, fields)
			}
		}
		schemas[list] = listed
	}
	return &out, schemas
}

// free is a custom kind's name, or one made of it that no other model has: a group that is called as a package is, backwards, would take the place of
// Kubernetes' own.
func (m *models) free(name string) string {
	out := name
	for n := 2; ; n++ {
		if _, taken := m.v2[out]; !taken {
			return out
		}
		out = fmt.Sprintf("%s_v%d", name, n)
	}
}

// selectableExtension names what field selectors may name, of a kind and of its list.
const selectableExtension = "x-kubernetes-selectable-fields"

// listOf is the model of a list.
func listOf(r *registry.Resource, item string, version int) spec.Schema {
	prefix := "#/components/schemas/"
	if version == 2 {
		prefix = "#/definitions/"
	}
	const conventions = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
	metaDescription := "Standard list metadata. " + conventions + "#types-kinds"
	meta := spec.Schema{SchemaProps: spec.SchemaProps{Description: metaDescription, AllOf: []spec.Schema{*spec.RefSchema(prefix + listMetaModel)}}}
	if version == 2 {
		meta = *spec.RefSchema(prefix + listMetaModel).WithDescription(metaDescription)
	}
	typeMeta := metav1.TypeMeta{}.SwaggerDoc()
	out := spec.Schema{SchemaProps: spec.SchemaProps{
		Description: r.ListKind + " is a list of " + r.GVK.Kind, Type: []string{"object"}, Required: []string{"items"},
		Properties: map[string]spec.Schema{
			"apiVersion": *spec.StringProperty().WithDescription(typeMeta["apiVersion"]),
			"kind":       *spec.StringProperty().WithDescription(typeMeta["kind"]),
			"metadata":   meta,
			"items": {SchemaProps: spec.SchemaProps{
				Description: "List of " + r.Kind.Resource + ". " + conventions,
				Type:        []string{"array"}, Items: &spec.SchemaOrArray{Schema: spec.RefSchema(prefix + item)},
			}},
		},
	}}
	out.AddExtension(gvkExtension, []any{map[string]any{"group": r.GVK.Group, "version": r.GVK.Version, "kind": r.ListKind}})
	return out
}
