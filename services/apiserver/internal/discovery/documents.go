package discovery

import (
	"crypto/sha512"
	"fmt"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"howdah.dev/services/apiserver/internal/aggregate"
	"howdah.dev/services/apiserver/internal/codec"
)

// document is one encoded answer.
type document struct {
	body        []byte
	contentType string
	etag        string
	remote      bool   // it lists what an extension API server serves
	custom      bool   // it lists custom resources
	maxAge      *int64 // seconds for which others may keep it; nil is not said
}

func newDocument(body []byte, contentType string) *document {
	return &document{body: body, contentType: contentType, etag: fmt.Sprintf("\"%X\"", sha512.Sum512(body))}
}

// plain returns the objects of the unaggregated documents by path: the lists of resources of what is served, and the lists of groups of what is registered.
func plain(groups []group, registered []aggregate.Registration, address string) map[string]runtime.Object {
	docs := map[string]runtime.Object{}
	core := &metav1.APIVersions{
		TypeMeta:                   metav1.TypeMeta{Kind: "APIVersions"}, // it is older than the versions that the others name
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: address}},
	}
	for _, g := range groups {
		for _, v := range g.versions {
			path := "/apis/" + v.gv.String()
			if g.name == "" {
				path = "/api/" + v.gv.Version
				core.Versions = append(core.Versions, v.gv.Version)
			}
			if v.remote == nil {
				docs[path] = resourceList(v)
			} else if known(v.remote) {
				docs[path] = remoteList(v.remote)
			}
		}
	}
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, r := range registered {
		version := metav1.GroupVersionForDiscovery{GroupVersion: r.String(), Version: r.Version}
		if last := len(list.Groups) - 1; last >= 0 && list.Groups[last].Name == r.Group {
			list.Groups[last].Versions = append(list.Groups[last].Versions, version)
			continue
		}
		list.Groups = append(list.Groups, metav1.APIGroup{Name: r.Group, PreferredVersion: version, Versions: []metav1.GroupVersionForDiscovery{version}})
	}
	for _, g := range list.Groups {
		g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		docs["/apis/"+g.Name] = &g
	}
	docs["/apis"], docs["/api"] = list, core
	return docs
}

// registrations are those that the lists of groups tell, in their order: what APIServices say, as one of a group that has no kind may, and what is served and
// has none yet. The core has documents of its own, and the group of APIServices stands before all others.
func registrations(groups []group, registered []aggregate.Registration) []aggregate.Registration {
	var first, all []aggregate.Registration
	for _, r := range registered {
		if r.Group != "" && r.Group != apiregistrationv1.GroupName {
			all = append(all, r)
		}
	}
	for _, g := range groups {
		for _, v := range g.versions {
			switch r := aggregate.LocalRegistration(v.gv); {
			case g.name == "":
			case g.name == apiregistrationv1.GroupName:
				first = append(first, r)
			case !slices.ContainsFunc(registered, func(o aggregate.Registration) bool { return o.GroupVersion == v.gv }):
				all = append(all, r)
			}
		}
	}
	return append(first, aggregate.Ordered(all)...)
}

func resourceList(v groupVersion) *metav1.APIResourceList {
	out := &metav1.APIResourceList{GroupVersion: v.gv.String(), APIResources: []metav1.APIResource{}}
	out.TypeMeta = metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}
	if v.gv.Group == "" { // as old as the list of versions
		out.APIVersion = ""
	}
	for _, r := range v.resources {
		k := r.res.Kind
		out.APIResources = append(out.APIResources, metav1.APIResource{
			Name: k.Resource, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: r.res.GVK.Kind,
			Verbs: r.verbs, ShortNames: r.shortNames(), Categories: r.categories(), StorageVersionHash: r.storageHash(),
		})
		for _, s := range r.subresources {
			entry := metav1.APIResource{Name: k.Resource + "/" + s.name, Namespaced: k.Namespaced, Kind: s.gvk.Kind, Verbs: s.verbs}
			if s.gvk.GroupVersion() != v.gv {
				entry.Group, entry.Version = s.gvk.Group, s.gvk.Version
			}
			out.APIResources = append(out.APIResources, entry)
		}
	}
	return out
}

// aggregated returns the aggregated document of the core group or of all the others.
func aggregated(groups []group, core bool) *discoveryv2.APIGroupDiscoveryList {
	list := &discoveryv2.APIGroupDiscoveryList{}
	for _, g := range groups {
		if (g.name == "") != core {
			continue
		}
		out := discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			if v.remote != nil {
				out.Versions = append(out.Versions, describeRemote(v.remote))
				continue
			}
			version := discoveryv2.APIVersionDiscovery{Version: v.gv.Version, Freshness: discoveryv2.DiscoveryFreshnessCurrent}
			for _, r := range v.resources {
				version.Resources = append(version.Resources, aggregatedResource(r))
			}
			out.Versions = append(out.Versions, version)
		}
		list.Items = append(list.Items, out)
	}
	return list
}

func aggregatedResource(r resource) discoveryv2.APIResourceDiscovery {
	k := r.res.Kind
	scope := discoveryv2.ScopeCluster
	if k.Namespaced {
		scope = discoveryv2.ScopeNamespace
	}
	out := discoveryv2.APIResourceDiscovery{
		Resource: k.Resource, SingularResource: k.Singular, Scope: scope, Verbs: r.verbs,
		ShortNames: r.shortNames(), Categories: r.categories(), ResponseKind: r.kindOf(r.res.GVK),
	}
	for _, s := range r.subresources {
		out.Subresources = append(out.Subresources, discoveryv2.APISubresourceDiscovery{
			Subresource: s.name, ResponseKind: r.kindOf(s.gvk), Verbs: s.verbs,
		})
	}
	return out
}

// kindOf names a kind of answers. Group and version stand there where they are not those that the resource is listed under, and
// with custom resources.
func (r resource) kindOf(gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	if r.res.Kind.Custom == nil && gvk.GroupVersion() == r.res.GVK.GroupVersion() {
		return &metav1.GroupVersionKind{Kind: gvk.Kind}
	}
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

// want is what an Accept header asks of a document: the version of the aggregated one where there is one ("" is none), and the
// encoding. What can be none of these is refused with 406.
func want(accept string, aggregated bool) (version string, media codec.Media, err error) {
	if accept == "" {
		return "", codec.JSON, nil
	}
	plain := false
	for _, wish := range codec.Wishes(accept) {
		params := wish.Params
		m, ok := codec.Offer{}.MediaOf(wish.Media)
		ok = ok && wish.Media == strings.ToLower(wish.Media) // here no other case will do
		if wish.Media == "*/*" || wish.Media == "application/*" {
			m, ok = codec.JSON, true
		}
		switch {
		case !ok:
		case params["as"] == "" && params["g"] == "" && params["v"] == "":
			if !plain {
				plain, media = true, m
			}
		case aggregated && params["as"] == "APIGroupDiscoveryList" && params["g"] == "apidiscovery.k8s.io" && params["v"] == "v2":
			return params["v"], m, nil // wherever it stands
		}
	}
	if plain {
		return "", media, nil
	}
	return "", codec.JSON, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 406, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
	}}
}

// offered refuses an Accept header that names none of the media types, as Kubernetes does for what is about one version: there, parts of
// names and parameters do not count.
func offered(accept string, types ...string) error {
	if accept == "" {
		return nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		name, _, _ := strings.Cut(part, ";")
		if name = strings.TrimSpace(name); name == "*/*" || slices.Contains(types, name) {
			return nil
		}
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 406, Reason: metav1.StatusReasonNotAcceptable, Details: &metav1.StatusDetails{},
		Message: "406: Not Acceptable\n\nAvailable representations: " + strings.Join(types, ", "),
	}}
}

// aggregatedDocument encodes an aggregated document.
func aggregatedDocument(list *discoveryv2.APIGroupDiscoveryList, version string, media codec.Media) (*document, error) {
	gvk := schema.GroupVersionKind{Group: "apidiscovery.k8s.io", Version: version, Kind: "APIGroupDiscoveryList"}
	body, contentType, err := codec.Any(list, gvk, codec.Form{Media: media})
	if err != nil {
		return nil, err
	}
	return newDocument(body, contentType+";g=apidiscovery.k8s.io;v="+version+";as=APIGroupDiscoveryList"), nil
}
