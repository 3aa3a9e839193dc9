package openapi

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

const (
	deleteModel = metaPackage + "DeleteOptions"
	patchModel  = metaPackage + "Patch"
	statusModel = metaPackage + "Status"
	eventModel  = metaPackage + "WatchEvent"
	scaleModel  = "io.k8s.api.autoscaling.v1.Scale"
	metaPackage = "io.k8s.apimachinery.pkg.apis.meta.v1."
)

var (
	scaleGVK = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}

	plainMedia  = []string{"application/json", "application/yaml"}
	objectMedia = append(slices.Clone(plainMedia), "application/vnd.kubernetes.protobuf")
	watchMedia  = append(slices.Clone(objectMedia), "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
	patchMedia  = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}
	anyMedia    = []string{"*/*"}
)

// describer makes the operations of one resource.
type describer struct {
	r      *registry.Resource
	models *models
	custom bool
	// scope is "Namespaced" in the names of operations, or nothing.
	scope string
	// root is the path of the version, scoped that of the resource.
	root, scoped string
	space        []parameter
}

func describe(r *registry.Resource, m *models) describer {
	d := describer{r: r, models: m, custom: r.Kind.Custom != nil, root: rootOf(r.GVK.GroupVersion())}
	d.scoped = d.root
	if r.Kind.Namespaced {
		d.scope, d.space = "Namespaced", []parameter{namespaceParameter}
		d.scoped += "/namespaces/{namespace}"
	}
	d.scoped += "/" + r.Kind.Resource
	return d
}

// id names an operation on the resource.
func (d describer) id(verb, rest string) string {
	return operationID(verb, d.r.GVK.GroupVersion(), d.scope+d.r.GVK.Kind+rest)
}

// with completes a route: what the resource's all have in common.
func (d describer) with(r route) route {
	r.tag = tagOf(d.r.GVK.GroupVersion())
	if r.consumes == nil {
		r.consumes = anyMedia
	}
	if r.produces == nil {
		r.produces = objectMedia
	}
	if r.about.Kind == "" {
		r.about = d.r.GVK
	}
	if d.custom {
		if r.action != "patch" {
			r.consumes = plainMedia
		}
		r.produces = plainMedia
	}
	return r
}

// routes are all operations of the resource.
func (d describer) routes() routes {
	out := routes{}
	add := func(r route) { out = append(out, d.with(r)) }
	d.collection(add)
	d.object(add)
	if !d.custom {
		d.watches(add)
	}
	d.subresources(add)
	return out
}

// collection are those on the many.
func (d describer) collection(add func(route)) {
	kind, one, list := d.r.GVK.Kind, d.models.name(d.r.GVK), d.models.name(d.r.GVK.GroupVersion().WithKind(d.r.ListKind))
	what, media := "list or watch objects of kind "+kind, watchMedia
	if d.custom {
		what = "list objects of kind " + kind
	}
	here := append(slices.Clone(d.space), pretty)
	add(route{method: "GET", path: d.scoped, id: d.id("list", ""), description: what, action: "list", produces: media,
		parameters: slices.Concat(here, listOptions), answer: list})
	add(route{method: "POST", path: d.scoped, id: d.id("create", ""), description: "create " + oneOf(kind), action: "post",
		parameters: slices.Concat(here, createOptions), body: one, answer: one, codes: []int{200, 201, 202}})
	if !d.r.Kind.OneByOne {
		id := operationID("delete", d.r.GVK.GroupVersion(), "Collection"+d.scope+kind)
		many := route{method: "DELETE", path: d.scoped, id: id, description: "delete collection of " + kind, action: "deletecollection", answer: statusModel}
		if d.custom {
			many.parameters = slices.Concat(here, listOptions)
		} else {
			many.body, many.optionalBody = deleteModel, true
			many.parameters = slices.Concat(here, collectionOptions, deleteOptions)
		}
		add(many)
	}
	if d.r.Kind.Namespaced {
		id := operationID("list", d.r.GVK.GroupVersion(), kind+"ForAllNamespaces")
		add(route{method: "GET", path: d.root + "/" + d.r.Kind.Resource, id: id, description: what, action: "list", produces: media,
			parameters: append([]parameter{pretty}, listOptions...), answer: list})
	}
}

// named are the parameters of a path that ends with the name of a kind.
func (d describer) named(kind string) []parameter {
	return append(slices.Clone(d.space), inPath("name", "name of the "+kind), pretty)
}

// object are those on the one.
func (d describer) object(add func(route)) {
	path, one := d.scoped+"/{name}", d.models.name(d.r.GVK)
	d.reads(add, path, "", d.r.GVK, one)
	d.writes(add, path, "", d.r.GVK, one)
	gone := model(statusModel)
	if d.r.Kind.ReturnDeleted {
		gone = one
	}
	add(route{method: "DELETE", path: path, id: d.id("delete", ""), description: "delete " + oneOf(d.r.GVK.Kind), action: "delete",
		parameters: slices.Concat(d.named(d.r.GVK.Kind), deleteOptions), body: deleteModel, optionalBody: true, answer: gone, codes: []int{200, 202}})
}

// of is what an operation is on: the resource or a subresource.
func (d describer) of(subresource string) string {
	if subresource == "" {
		return "the specified " + d.r.GVK.Kind
	}
	return subresource + " of the specified " + d.r.GVK.Kind
}

func (d describer) reads(add func(route), path, subresource string, about schema.GroupVersionKind, one model) {
	r := route{method: "GET", path: path, id: d.id("read", title(subresource)), description: "read " + d.of(subresource), action: "get", about: about,
		parameters: d.named(about.Kind), answer: one}
	if d.custom {
		r.about, r.parameters = d.r.GVK, append(d.named(d.r.GVK.Kind), getOptions...)
	}
	add(r)
}

func (d describer) writes(add func(route), path, subresource string, about schema.GroupVersionKind, one model) {
	codes, media := []int{200, 201}, patchMedia
	if d.custom {
		about, codes = d.r.GVK, []int{200}
		media = []string{patchMedia[0], patchMedia[1], patchMedia[3]}
	}
	d.put(add, path, subresource, about, one)
	add(route{method: "PATCH", path: path, id: d.id("patch", title(subresource)), description: "partially update " + d.of(subresource), action: "patch", about: about,
		consumes: media, parameters: slices.Concat(d.named(about.Kind), patchOptions), body: patchModel, answer: one, codes: codes})
}

func (d describer) put(add func(route), path, subresource string, about schema.GroupVersionKind, one model) {
	add(route{method: "PUT", path: path, id: d.id("replace", title(subresource)), description: "replace " + d.of(subresource), action: "put", about: about,
		parameters: slices.Concat(d.named(about.Kind), updateOptions), body: one, answer: one, codes: []int{200, 201}})
}

// watches are the old paths of watches.
func (d describer) watches(add func(route)) {
	const deprecated = "deprecated: use the 'watch' parameter with a list operation instead"
	kind, root := d.r.GVK.Kind, d.root+"/watch"
	scoped := root + d.scoped[len(d.root):]
	changes := "watch individual changes to a list of " + kind + ". " + deprecated + "."
	list := slices.Concat(d.space, []parameter{pretty}, listOptions)
	add(route{method: "GET", path: scoped, id: d.id("watch", "List"), description: changes, action: "watchlist", produces: watchMedia, parameters: list, answer: eventModel})
	if d.r.Kind.Namespaced {
		id := operationID("watch", d.r.GVK.GroupVersion(), kind+"ListForAllNamespaces")
		add(route{method: "GET", path: root + "/" + d.r.Kind.Resource, id: id, description: changes, action: "watchlist", produces: watchMedia,
			parameters: append([]parameter{pretty}, listOptions...), answer: eventModel})
	}
	add(route{method: "GET", path: scoped + "/{name}", id: d.id("watch", ""), action: "watch", produces: watchMedia, answer: eventModel,
		description: "watch changes to an object of kind " + kind + ". " + deprecated + ", filtered to a single item with the 'fieldSelector' parameter.",
		parameters:  slices.Concat(d.named(kind), listOptions)})
}

func (d describer) subresources(add func(route)) {
	base, one, k := d.scoped+"/{name}/", d.models.name(d.r.GVK), d.r.Kind
	both := func(name string, about schema.GroupVersionKind, m model) {
		d.reads(add, base+name, name, about, m)
		d.writes(add, base+name, name, about, m)
	}
	if k.Status != nil {
		both("status", d.r.GVK, one)
	}
	if k.Scale != nil {
		both("scale", scaleGVK, scaleModel)
	}
	for _, name := range slices.Sorted(maps.Keys(k.Writes)) {
		if name == "finalize" {
			d.put(add, base+name, name, d.r.GVK, one)
		} else {
			both(name, d.r.GVK, one)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.Actions)) {
		d.action(add, name, k.Actions[name].GVK)
	}
	if d.r.GVK.Group == "" {
		d.core(add)
	}
}

// action is a subresource that takes a POST of another kind.
func (d describer) action(add func(route), name string, body schema.GroupVersionKind) {
	m := d.models.name(body)
	add(route{method: "POST", path: d.scoped + "/{name}/" + name, id: d.id("create", title(name)), action: "post", about: body,
		description: "create " + name + " of " + oneOf(d.r.GVK.Kind), parameters: slices.Concat(d.named(body.Kind), createOptions),
		body: m, answer: m, codes: []int{200, 201, 202}})
}

// created are the operations of a resource that is not stored: it is created, or, where it has lists, read.
func created(r *registry.Resource, m *models) routes {
	d := describe(r, m)
	if r.Kind.NewList != nil {
		return d.observed()
	}
	one := m.name(r.GVK)
	return routes{d.with(route{method: "POST", path: d.scoped, id: d.id("create", ""), description: "create " + oneOf(r.GVK.Kind), action: "post",
		parameters: slices.Concat(d.space, []parameter{pretty}, createOptions), body: one, answer: one, codes: []int{200, 201, 202}})}
}

// observed are those of a resource that is only read.
func (d describer) observed() routes {
	list := d.models.name(d.r.GVK.GroupVersion().WithKind(d.r.ListKind))
	out := routes{d.with(route{method: "GET", path: d.scoped, id: d.id("list", ""), description: "list objects of kind " + d.r.GVK.Kind, action: "list",
		produces: watchMedia, parameters: slices.Concat(d.space, []parameter{pretty}, listOptions), answer: list})}
	d.reads(func(r route) { out = append(out, d.with(r)) }, d.scoped+"/{name}", "", d.r.GVK, d.models.name(d.r.GVK))
	return out
}
