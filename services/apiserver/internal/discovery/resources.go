// Package discovery tells clients what is served: the documents behind /api, /apis, /version, /healthz and the like.
package discovery

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"howdah.dev/services/apiserver/internal/aggregate"
	"howdah.dev/services/apiserver/internal/registry"
)

// groupOrder is the order in which clients should look for a resource; groups that are not named stand behind, by name.
var groupOrder = []string{
	"", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling",
	"batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io",
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io",
	"discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io",
}

// objectVerbs are what every kind takes.
var objectVerbs = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// verbsOf are those of a resource: of one whose definition is being deleted, nothing can be created or changed any more.
func verbsOf(r *registry.Resource) metav1.Verbs {
	if r.Kind.Custom != nil && r.Kind.Custom.Terminating() {
		return metav1.Verbs{"delete", "deletecollection", "get", "list", "watch"}
	}
	if r.Kind.Custom != nil {
		return metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	}
	if r.Kind.OneByOne {
		return metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
	}
	return objectVerbs
}

// virtualVerbs are those of a resource that is not stored: it is created, or, where it has lists, read.
func virtualVerbs(r *registry.Resource) metav1.Verbs {
	if r.Kind.NewList == nil {
		return metav1.Verbs{"create"}
	}
	return metav1.Verbs{"get", "list"}
}

// writtenAs are the versions that Kubernetes 1.36 stores kinds in where that is not the newest: clients that compare the digests of
// servers must see one.
var writtenAs = map[schema.GroupKind]string{
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}:        "v1beta1",
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"}: "v1beta1",
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:               "v1beta1",
}

// storageHash names the version that objects are stored in, as Kubernetes does: the beginning of a digest.
func (r resource) storageHash() string {
	if r.virtual {
		return ""
	}
	stored := r.res.Kind.GVK
	if custom := r.res.Kind.Custom; custom != nil {
		stored.Version = custom.StoredAs()
	} else if version := writtenAs[stored.GroupKind()]; version != "" {
		stored.Version = version
	}
	sum := sha256.Sum256([]byte(stored.Group + "/" + stored.Version + "/" + stored.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// group is what is served of one API group.
type group struct {
	name     string
	versions []groupVersion // the preferred first
}

type groupVersion struct {
	gv        schema.GroupVersion
	resources []resource
	// remote is what an extension API server serves; nil where this one does.
	remote *aggregate.Version
}

// resource is a resource with its subresources.
type resource struct {
	res          *registry.Resource
	subresources []subresource
	verbs        metav1.Verbs
	virtual      bool // nothing is stored
}

// shortNames are not told of kinds in the group extensions: they have all moved elsewhere, and every use of a short name would
// be ambiguous, and categories list them twice.
func (r resource) shortNames() []string {
	if r.moved() {
		return nil
	}
	return r.res.Kind.ShortNames
}

func (r resource) categories() []string {
	if r.moved() {
		return nil
	}
	return r.res.Kind.Categories
}

func (r resource) moved() bool { return r.res.GVK.Group == "extensions" }

type subresource struct {
	name  string
	gvk   schema.GroupVersionKind
	verbs metav1.Verbs
}

// custom reports whether a path is that of a group, or of a group version, of custom resources.
func (s *served) custom(path string) bool {
	for _, g := range s.groups {
		if path == "/apis/"+g.name {
			return g.custom()
		}
		for _, v := range g.versions {
			if path == "/apis/"+v.gv.String() {
				return v.custom()
			}
		}
	}
	return false
}

// custom reports whether all versions of a group are of custom resources.
func (g group) custom() bool {
	return !slices.ContainsFunc(g.versions, func(v groupVersion) bool { return !v.custom() })
}

// custom reports whether a group version is one of custom resources: there are none beside built-in ones.
func (v groupVersion) custom() bool {
	return len(v.resources) > 0 && v.resources[0].res.Kind.Custom != nil
}

func groupsOf(table *registry.Table, virtual []*registry.Resource) []group {
	byGroup := map[string]map[string][]resource{}
	for _, r := range table.Resources() {
		if byGroup[r.GVR.Group] == nil {
			byGroup[r.GVR.Group] = map[string][]resource{}
		}
		byGroup[r.GVR.Group][r.GVR.Version] = append(byGroup[r.GVR.Group][r.GVR.Version], resource{r, subresourcesOf(r), verbsOf(r), false})
	}
	for _, r := range virtual {
		if byGroup[r.GVR.Group] == nil {
			byGroup[r.GVR.Group] = map[string][]resource{}
		}
		byGroup[r.GVR.Group][r.GVR.Version] = append(byGroup[r.GVR.Group][r.GVR.Version], resource{r, nil, virtualVerbs(r), true})
	}
	var groups []group
	for name, versions := range byGroup {
		g := group{name: name}
		for v, resources := range versions {
			slices.SortFunc(resources, func(a, b resource) int { return strings.Compare(a.res.GVR.Resource, b.res.GVR.Resource) })
			g.versions = append(g.versions, groupVersion{schema.GroupVersion{Group: name, Version: v}, resources, nil})
		}
		sort.Slice(g.versions, func(i, j int) bool {
			return version.CompareKubeAwareVersionStrings(g.versions[i].gv.Version, g.versions[j].gv.Version) > 0
		})
		groups = append(groups, g)
	}
	sort.Slice(groups, func(i, j int) bool {
		a, b := rank(groups[i].name), rank(groups[j].name)
		if a != b {
			return a < b
		}
		return groups[i].name < groups[j].name
	})
	return groups
}

// rank orders groups: those that are named, then the others, and extensions, whose kinds have all moved elsewhere, last.
func rank(group string) int {
	if group == "extensions" {
		return len(groupOrder) + 1
	}
	if i := slices.Index(groupOrder, group); i >= 0 {
		return i
	}
	return len(groupOrder)
}

func subresourcesOf(r *registry.Resource) []subresource {
	k := r.Kind
	writes := metav1.Verbs{"get", "patch", "update"}
	create := metav1.Verbs{"create"}
	var subs []subresource
	if k.Status != nil {
		subs = append(subs, subresource{"status", r.GVK, writes})
	}
	if k.Scale != nil {
		subs = append(subs, subresource{"scale", schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, writes})
	}
	for name := range k.Writes {
		verbs := writes
		if name == "finalize" {
			verbs = metav1.Verbs{"update"}
		}
		subs = append(subs, subresource{name, r.GVK, verbs})
	}
	for name, a := range k.Actions {
		subs = append(subs, subresource{name, a.GVK, create})
	}
	if k.GVK.Group == "" {
		subs = append(subs, coreSubresources(k.Resource)...)
	}
	if k.Custom != nil { // Kubernetes has their status before their scale
		return subs
	}
	sort.Slice(subs, func(i, j int) bool { return subs[i].name < subs[j].name })
	return subs
}

func coreSubresources(resource string) []subresource {
	create, both := metav1.Verbs{"create"}, metav1.Verbs{"create", "get"}
	proxied := metav1.Verbs{"create", "delete", "get", "patch", "update"}
	core := func(kind string) schema.GroupVersionKind { return schema.GroupVersionKind{Version: "v1", Kind: kind} }
	switch resource {
	case "pods":
		return []subresource{
			{"attach", core("PodAttachOptions"), both},
			{"eviction", schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}, create},
			{"exec", core("PodExecOptions"), both},
			{"log", core("Pod"), metav1.Verbs{"get"}},
			{"portforward", core("PodPortForwardOptions"), both},
			{"proxy", core("PodProxyOptions"), proxied},
		}
	case "services":
		return []subresource{{"proxy", core("ServiceProxyOptions"), proxied}}
	case "nodes":
		return []subresource{{"proxy", core("NodeProxyOptions"), proxied}}
	case "serviceaccounts":
		return []subresource{{"token", schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}, create}}
	}
	return nil
}
