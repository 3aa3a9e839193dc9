// Package past is the client of howdah's history and transactions: it finds out what the user means, asks, and prints.
package past

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Target is an object, or with no name a collection.
type Target struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

// Parse reads KIND/NAME, or KIND NAME, as kubectl does: short names and full ones with their group, as in "deploy" and "deployments.apps".
func Parse(config *rest.Config, namespace string, args []string) (Target, error) {
	kind, name, split := strings.Cut(args[0], "/")
	switch {
	case split && len(args) > 1, len(args) > 2:
		return Target{}, fmt.Errorf("name one object, as KIND/NAME")
	case len(args) == 2:
		name = args[1]
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return Target{}, err
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return Target{}, fmt.Errorf("ask for the API's resources: %w", err)
	}
	return parse(mapper(groups, client), namespace, kind, name)
}

func mapper(groups []*restmapper.APIGroupResources, client discovery.DiscoveryInterface) meta.RESTMapper {
	return restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), shortcuts{client}, nil)
}

// shortcuts is a discovery client that need not be fresh.
type shortcuts struct{ discovery.DiscoveryInterface }

// Fresh implements discovery.CachedDiscoveryInterface.
func (shortcuts) Fresh() bool { return true }

// Invalidate implements discovery.CachedDiscoveryInterface.
func (shortcuts) Invalidate() {}

func parse(m meta.RESTMapper, namespace, kind, name string) (Target, error) {
	full, grouped := schema.ParseResourceArg(strings.ToLower(kind))
	var resource schema.GroupVersionResource
	err := error(&meta.NoResourceMatchError{})
	if full != nil {
		resource, err = m.ResourceFor(*full)
	}
	if err != nil {
		resource, err = m.ResourceFor(grouped.WithVersion(""))
	}
	if err != nil {
		return Target{}, fmt.Errorf("the server doesn't have a resource type %q", kind)
	}
	gvk, err := m.KindFor(resource)
	if err != nil {
		return Target{}, err
	}
	mapping, err := m.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return Target{}, err
	}
	t := Target{Resource: resource, Name: name}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		t.Namespace = namespace
	}
	return t, nil
}

// Path is that of the target's history.
func (t Target) Path() string {
	parts := []string{"/howdah/v1/history/apis", t.Resource.Group, t.Resource.Version}
	if t.Resource.Group == "" {
		parts = []string{"/howdah/v1/history/api", t.Resource.Version}
	}
	if t.Namespace != "" {
		parts = append(parts, "namespaces", url.PathEscape(t.Namespace))
	}
	parts = append(parts, t.Resource.Resource)
	if t.Name != "" {
		parts = append(parts, url.PathEscape(t.Name))
	}
	return strings.Join(parts, "/")
}

// String names the target as kubectl does.
func (t Target) String() string {
	return t.Resource.GroupResource().String() + "/" + t.Name
}
