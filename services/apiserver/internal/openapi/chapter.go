package openapi

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"howdah.dev/services/apiserver/internal/registry"
)

// chapter is one document of version 3.
type chapter struct {
	// about names the definitions of the custom kinds that it is about, as they are; empty where there are none.
	about string
	build func() ([]byte, error)
}

// chapters are all that there are now, by name: one a group and version, one a group, and those about no group.
func (d *Documents) chapters() map[string]chapter {
	out := map[string]chapter{}
	for name := range general {
		out[name] = d.chapter(generalRoute(name))
	}
	for _, gv := range d.groupVersions() {
		about := d.about(gv)
		out[documentName(gv)] = chapter{about, func() ([]byte, error) { return d.v3(gv) }}
		if gv.Group != "" && about == "" {
			out["apis/"+gv.Group] = d.chapter(groupRoute(gv.Group))
		}
	}
	return out
}

// chapter is a document about one route.
func (d *Documents) chapter(r route) chapter {
	return chapter{build: func() ([]byte, error) {
		document, err := d.models().modern(d.info(), routes{r})
		if err != nil {
			return nil, err
		}
		return json.Marshal(document)
	}}
}

// groupVersions returns those that are served.
func (d *Documents) groupVersions() []schema.GroupVersion {
	seen := map[schema.GroupVersion]bool{}
	for _, r := range slices.Concat(d.table.Resources(), d.created) {
		seen[r.GVK.GroupVersion()] = true
	}
	return slices.Collect(maps.Keys(seen))
}

func documentName(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}

// index lists the documents of version 3, each with the hash of what it says; those of custom kinds, which are made when they
// are asked for, with one of the definitions that they are about.
func (d *Documents) index() ([]byte, error) {
	paths := map[string]any{}
	for name, c := range d.chapters() {
		hash, err := d.hash(name, c)
		if err != nil {
			return nil, err
		}
		paths[name] = map[string]string{"serverRelativeURL": v3Prefix + name + "?hash=" + hash}
	}
	return json.Marshal(map[string]any{"paths": paths})
}

const v3Prefix = "/openapi/v3/"

func (d *Documents) hash(name string, c chapter) (string, error) {
	about, err := []byte(c.about), error(nil)
	if c.about == "" {
		about, err = d.once(v3Prefix+name, c.build)
	}
	return fmt.Sprintf("%X", sha512.Sum512(about)), err
}

// Hash returns the hash by which the index names a document of version 3, whatever its encoding; empty where there is none.
func (d *Documents) Hash(path string) string {
	name, is := strings.CutPrefix(path, v3Prefix)
	c, found := d.chapters()[name]
	if !is || !found {
		return ""
	}
	hash, err := d.hash(name, c)
	if err != nil { // the document itself tells
		return ""
	}
	return hash
}

func (d *Documents) info() *spec.Info {
	return &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: d.version}}
}

// customInfo is what Kubernetes calls the documents of custom kinds.
var customInfo = &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes CRD Swagger", Version: "v0.1.0"}}

// in returns the resources of a group and version, stored ones and created ones.
func (d *Documents) in(gv schema.GroupVersion) (stored, made []*registry.Resource) {
	for _, r := range d.table.Resources() {
		if r.GVK.GroupVersion() == gv {
			stored = append(stored, r)
		}
	}
	for _, r := range d.created {
		if r.GVK.GroupVersion() == gv {
			made = append(made, r)
		}
	}
	return stored, made
}

// v3 is the document of one group and version.
func (d *Documents) v3(gv schema.GroupVersion) ([]byte, error) {
	stored, made := d.in(gv)
	m, schemas := d.models().with(stored, 3)
	var all routes
	for _, r := range stored {
		all = append(all, describe(r, m).routes()...)
	}
	for _, r := range made {
		all = append(all, created(r, m)...)
	}
	info := customInfo
	if len(m.custom) == 0 {
		info = d.info()
		all = append(all, versionRoute(gv))
	}
	document, err := m.modern(info, all)
	if err != nil {
		return nil, err
	}
	if len(m.custom) == 0 {
		narrow(document.Components.Schemas, func(of schema.GroupVersion) bool { return of == gv || of == schema.GroupVersion{Version: "v1"} })
	} else {
		narrow(document.Components.Schemas, client)
		schemas = maps.Clone(schemas)
		maps.Copy(schemas, m.reachable(map[string]bool{metaModel: true, listMetaModel: true}, 3))
		maps.Copy(document.Components.Schemas, pointers(schemas))
	}
	return json.Marshal(document)
}

// client reports the versions that client-go knows: those that the document of a custom kind is told of.
func client(gv schema.GroupVersion) bool {
	switch gv.Group {
	case "admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io":
		return false
	}
	return true
}

// narrow leaves of the kinds that every version has, as options of deletion, those of the versions that are kept.
func narrow(schemas map[string]*spec.Schema, keep func(schema.GroupVersion) bool) {
	for _, name := range []string{deleteModel, eventModel} {
		s := schemas[name]
		if s == nil {
			continue
		}
		var kept []any
		list, _ := s.Extensions[gvkExtension].([]any)
		for _, one := range list {
			gvk, _ := one.(map[string]any)
			if keep(schema.GroupVersion{Group: gvk["group"].(string), Version: gvk["version"].(string)}) {
				kept = append(kept, one)
			}
		}
		narrowed := *s
		narrowed.Extensions = maps.Clone(s.Extensions)
		narrowed.Extensions[gvkExtension] = kept
		schemas[name] = &narrowed
	}
}
