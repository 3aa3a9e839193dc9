package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

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

// edition is what there is to tell of one generation of the table. It does not change once made.
type edition struct {
	generation int64
	// chapters are all documents of version 3, by name: one a group and version, one a group, and those about no group.
	chapters map[string]chapter
	// custom are the custom kinds, and about names the definitions of all of them.
	custom []*registry.Resource
	about  string
	index  func() (*held, error)
}

// edition returns that of the table as it is now.
func (d *Documents) edition() *edition {
	generation := d.table.Generation() // before the table is read: what has changed since is told of the next time
	if e := d.latest.Load(); e != nil && e.generation == generation {
		return e
	}
	e := &edition{generation: generation, chapters: map[string]chapter{}}
	for name := range general {
		e.chapters[name] = d.chapter(generalRoute(name))
	}
	for _, gv := range d.groupVersions() {
		about := d.about(gv)
		e.chapters[documentName(gv)] = chapter{about, func() ([]byte, error) { return d.v3(gv) }}
		if gv.Group != "" && about == "" {
			e.chapters["apis/"+gv.Group] = d.chapter(groupRoute(gv.Group))
		}
	}
	var all strings.Builder
	for _, r := range d.table.Resources() {
		if r.Kind.Custom != nil {
			e.custom = append(e.custom, r)
			fmt.Fprintf(&all, "%s %s\n", r.GVR, r.Kind.Custom.Fingerprint())
		}
	}
	e.about = all.String()
	e.index = sync.OnceValues(func() (*held, error) { return d.index(e.chapters) })
	d.latest.Store(e)
	return e
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
func (d *Documents) index(chapters map[string]chapter) (*held, error) {
	paths := map[string]any{}
	for name, c := range chapters {
		hash, err := d.hash(name, c)
		if err != nil {
			return nil, err
		}
		paths[name] = map[string]string{"serverRelativeURL": v3Prefix + name + "?hash=" + hash}
	}
	body, err := json.Marshal(map[string]any{"paths": paths})
	return &held{body: body, hash: hashOf(body)}, err
}

const v3Prefix = "/openapi/v3/"

func (d *Documents) hash(name string, c chapter) (string, error) {
	if c.about != "" {
		return hashOf([]byte(c.about)), nil
	}
	h, err := d.kept.once(v3Prefix+name, "", c.build)
	if err != nil {
		return "", err
	}
	return h.hash, nil
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
