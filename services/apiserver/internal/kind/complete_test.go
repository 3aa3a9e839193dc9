package kind_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// notStored are kinds with lists that are no stored objects.
var notStored = map[schema.GroupVersionKind]string{
	{Version: "v1", Kind: "APIGroup"}:                                        "a document of discovery",
	{Version: "v1", Kind: "ComponentStatus"}:                                 "made when it is read",
	{Group: "apidiscovery.k8s.io", Version: "v2", Kind: "APIGroupDiscovery"}: "a document of discovery",
}

// notServed are the older versions that are left out on purpose.
var notServed = map[schema.GroupVersion]string{
	{Group: "apidiscovery.k8s.io", Version: "v2beta1"}:          "a document of discovery",
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta1"}: "removed in 1.26",
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta2"}: "removed in 1.29",
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta3"}: "removed in 1.32",
	{Group: "admissionregistration.k8s.io", Version: "v1beta1"}: "removed in 1.22, or off by default; MutatingAdmissionPolicy is there",
}

// Every kind of k8s.io/api that can be listed is served in every version that is stable, and in every beta but those above.
func TestNoKindIsMissing(t *testing.T) {
	t.Parallel()
	served := map[schema.GroupVersionKind]bool{}
	stable := map[schema.GroupKind]bool{}
	for _, r := range table(t).Resources() {
		served[r.GVK] = true
		if !strings.Contains(r.GVK.Version, "beta") {
			stable[r.GVK.GroupKind()] = true
		}
	}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if !scheme.Scheme.Recognizes(gvk.GroupVersion().WithKind(gvk.Kind+"List")) || strings.Contains(gvk.Version, "alpha") {
			continue
		}
		_, internal := notStored[gvk]
		_, left := notServed[gvk.GroupVersion()]
		switch {
		case served[gvk], internal, left:
		case strings.Contains(gvk.Version, "beta") && !stable[gvk.GroupKind()] && gvk.GroupKind() != (schema.GroupKind{Group: "extensions", Kind: gvk.Kind}):
			// What has no stable version yet is off by default in Kubernetes, too.
		default:
			t.Errorf("%s is not served", gvk)
		}
	}
}
