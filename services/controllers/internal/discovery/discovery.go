// Package discovery asks the API which kinds it serves.
package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// timeout bounds the request for one document.
const timeout = 10 * time.Second

// Resource is one served resource, in its group's preferred version.
type Resource struct {
	GVK        schema.GroupVersionKind
	Name       string // lower-case plural
	Namespaced bool
	Verbs      []string
	// Remote says that an extension API server serves it.
	Remote bool
	// Scales says that it has a subresource scale.
	Scales bool
}

// Can says whether the resource has all the verbs.
func (r Resource) Can(verbs ...string) bool {
	for _, v := range verbs {
		if !slices.Contains(r.Verbs, v) {
			return false
		}
	}
	return true
}

// GroupResource returns the resource with its group.
func (r Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.GVK.Group, Resource: r.Name}
}

// Metadata returns the kind that reads the resource's metadata only.
func (r Resource) Metadata() object.Kind[*metav1.PartialObjectMetadata] {
	kind := object.Metadata(r.GVK, r.Name, r.Namespaced)
	kind.Remote = r.Remote
	return kind
}

// Resources returns what the API serves, without subresources. Where some
// groups cannot be read it returns the others, and an error that names them.
func Resources(ctx context.Context, client *object.Client) ([]Resource, error) {
	return of(ctx, client, func(string) bool { return true })
}

// core is the name of the group that has none.
const core = ""

// Group returns what the API serves of one group, as Resources does of all.
func Group(ctx context.Context, client *object.Client, name string) ([]Resource, error) {
	return of(ctx, client, func(group string) bool { return group == name })
}

// Groups returns the named groups that the API serves.
func Groups(ctx context.Context, client *object.Client) ([]metav1.APIGroup, error) {
	var groups metav1.APIGroupList
	_, err := document(ctx, client, "/apis", &groups)
	return groups.Groups, err
}

func of(ctx context.Context, client *object.Client, wanted func(group string) bool) ([]Resource, error) {
	var (
		resources []Resource
		problems  failures
	)
	add := func(path string, gv schema.GroupVersion) {
		var list metav1.APIResourceList
		remote, err := document(ctx, client, path, &list)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", gv, err))
			return
		}
		scaled := map[string]bool{}
		for _, r := range list.APIResources {
			if name, of := strings.CutSuffix(r.Name, "/scale"); of && r.Kind == "Scale" {
				scaled[name] = true
			}
		}
		for _, r := range list.APIResources {
			if !isSubresource(r.Name) {
				resources = append(resources, Resource{gv.WithKind(r.Kind), r.Name, r.Namespaced, r.Verbs, remote, scaled[r.Name]})
			}
		}
	}
	if wanted(core) {
		add("/api/v1", schema.GroupVersion{Version: "v1"})
	}
	groups, err := Groups(ctx, client)
	if err != nil {
		return resources, append(problems, fmt.Errorf("groups: %w", err))
	}
	for _, g := range groups {
		if !wanted(g.Name) {
			continue
		}
		// Every version is read: one may have kinds that the preferred one lacks.
		seen := len(resources)
		versions := append([]metav1.GroupVersionForDiscovery{g.PreferredVersion}, g.Versions...)
		for i, v := range versions {
			gv, err := schema.ParseGroupVersion(v.GroupVersion)
			if err != nil || v.GroupVersion == "" || i > 0 && v.GroupVersion == g.PreferredVersion.GroupVersion {
				continue
			}
			before := len(resources)
			add("/apis/"+v.GroupVersion, gv)
			resources = keepFirst(resources, seen, before)
		}
	}
	if len(problems) > 0 {
		return resources, problems
	}
	return resources, nil
}

// failures are why documents could not be read. Their text is the one that clients of Kubernetes know.
type failures []error

func (f failures) Error() string {
	texts := make([]string, len(f))
	for i, err := range f {
		texts[i] = err.Error()
	}
	slices.Sort(texts)
	return "unable to retrieve the complete list of server APIs: " + strings.Join(texts, ", ")
}

func (f failures) Unwrap() []error { return f }

// keepFirst drops, from index from on, resources whose name is there since
// index group already, and legacy copies of kinds that apps serves.
func keepFirst(all []Resource, group, from int) []Resource {
	kept := all[:from]
	for _, r := range all[from:] {
		legacy := r.GVK.Group == "extensions"
		if !legacy && !slices.ContainsFunc(all[group:from], func(o Resource) bool { return o.Name == r.Name }) {
			kept = append(kept, r)
		}
	}
	return kept
}

func isSubresource(name string) bool { return slices.Contains([]byte(name), '/') }

// document reads a discovery document into a typed list, and says whether it is of an extension API server.
func document(ctx context.Context, client *object.Client, path string, into any) (remote bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := client.Discovery().Document(ctx, &apiv1.DocumentRequest{Path: path, Accept: "application/json"})
	if err != nil {
		err = apistatus.FromGRPC(err)
		if apierrors.IsNotFound(err) && path == "/apis" {
			return false, nil
		}
		return false, err
	}
	return resp.GetRemote(), json.Unmarshal(resp.GetObject(), into)
}
