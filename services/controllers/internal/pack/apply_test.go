package pack

import (
	"errors"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

// What could not be written is told in Kubernetes' words, the first of it; a cache that was behind comes after that, and what is gone is not missed.
func TestApply(t *testing.T) {
	t.Parallel()
	slice := func(name string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u", ResourceVersion: "1"}, AddressType: discoveryv1.AddressTypeIPv4}
	}
	slices := func(names ...string) (all []*discoveryv1.EndpointSlice) {
		for _, n := range names {
			all = append(all, slice(n))
		}
		return all
	}
	forbidden := apierrors.NewForbidden(object.EndpointSlice.GroupResource(), "", errors.New("no"))
	conflict := apierrors.NewConflict(object.EndpointSlice.GroupResource(), "", errors.New("old"))
	const refused = "endpointslices.discovery.k8s.io is forbidden: no"
	for name, tc := range map[string]struct {
		plan    Plan
		answers map[string]error // by the verb and the name
		want    string
	}{
		"created":             {Plan{Create: slices("a")}, nil, ""},
		"a creation refused":  {Plan{Create: slices("a")}, map[string]error{"create a": forbidden}, "failed to create EndpointSlice for Service default/x: " + refused},
		"an update refused":   {Plan{Update: slices("a")}, map[string]error{"update a": forbidden}, "failed to update a EndpointSlice for Service default/x: " + refused},
		"of one that is gone": {Plan{Update: slices("a")}, nil, `failed to update a EndpointSlice for Service default/x: endpointslices.discovery.k8s.io "a" not found`},
		"a deletion refused":  {Plan{Delete: slices("a")}, map[string]error{"delete a": forbidden}, "failed to delete a EndpointSlice for Service default/x: " + refused},
		"deleted before":      {Plan{Delete: slices("a")}, nil, ""},
		"two refused": {Plan{Create: slices("a"), Update: slices("b")}, map[string]error{"create a": forbidden, "update b": forbidden},
			"failed to create EndpointSlice for Service default/x: " + refused},
		"behind": {Plan{Update: slices("a")}, map[string]error{"update a": conflict}, conflict.Error()},
		"behind, and refused": {Plan{Create: slices("a"), Update: slices("b")}, map[string]error{"create a": conflict, "update b": forbidden},
			"failed to update b EndpointSlice for Service default/x: " + refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := objecttest.New()
			api.Intercept = func(w objecttest.Write) error { return tc.answers[w.Verb+" "+w.Name] }
			got := ""
			if _, err := Apply(t.Context(), api.Serve(t), "Service default/x", tc.plan, nil); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("error %q, want %q", got, tc.want)
			}
		})
	}
}
