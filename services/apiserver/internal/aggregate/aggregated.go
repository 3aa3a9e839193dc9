package aggregate

import (
	"encoding/json"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// aggregated asks for the document that tells all group versions of a server with their resources. What v2beta1 has is the same.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"

// resourcesOf are the resources of a group version as an aggregated document tells them; nil: it does not.
func resourcesOf(document []byte, group, version string) *metav1.APIResourceList {
	var groups discoveryv2.APIGroupDiscoveryList
	if json.Unmarshal(document, &groups) != nil || groups.Kind != "APIGroupDiscoveryList" {
		return nil
	}
	for _, g := range groups.Items {
		for _, v := range g.Versions {
			if g.Name == group && v.Version == version {
				return listOf(group+"/"+version, v.Resources)
			}
		}
	}
	return nil
}

func listOf(groupVersion string, resources []discoveryv2.APIResourceDiscovery) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: groupVersion}
	for _, r := range resources {
		one := metav1.APIResource{
			Name: r.Resource, SingularName: r.SingularResource, Namespaced: r.Scope == discoveryv2.ScopeNamespace,
			Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		}
		answered(&one, r.ResponseKind)
		list.APIResources = append(list.APIResources, one)
		for _, sub := range r.Subresources {
			one := metav1.APIResource{Name: r.Resource + "/" + sub.Subresource, Namespaced: r.Scope == discoveryv2.ScopeNamespace, Verbs: sub.Verbs}
			answered(&one, sub.ResponseKind)
			list.APIResources = append(list.APIResources, one)
		}
	}
	return list
}

func answered(r *metav1.APIResource, kind *metav1.GroupVersionKind) {
	if kind != nil {
		r.Group, r.Version, r.Kind = kind.Group, kind.Version, kind.Kind
	}
}
