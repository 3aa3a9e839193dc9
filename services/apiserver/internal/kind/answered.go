package kind

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

// answered are the kinds, beside those whose rows say so, of which a deletion that is done at once is answered with the object and
// not with a Status.
var answered = map[schema.GroupResource]bool{
	{Resource: "persistentvolumes"}:                                true,
	{Resource: "persistentvolumeclaims"}:                           true,
	{Resource: "podtemplates"}:                                     true,
	{Resource: "resourcequotas"}:                                   true,
	{Group: "resource.k8s.io", Resource: "deviceclasses"}:          true,
	{Group: "resource.k8s.io", Resource: "resourceclaims"}:         true,
	{Group: "resource.k8s.io", Resource: "resourceclaimtemplates"}: true,
	{Group: "resource.k8s.io", Resource: "resourceslices"}:         true,
	{Group: "storage.k8s.io", Resource: "csidrivers"}:              true,
	{Group: "storage.k8s.io", Resource: "csinodes"}:                true,
	{Group: "storage.k8s.io", Resource: "storageclasses"}:          true,
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:       true,
	{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}: true,
}

func answer(kinds []*registry.Kind) []*registry.Kind {
	for _, k := range kinds {
		k.ReturnDeleted = k.ReturnDeleted || answered[k.GroupResource()]
	}
	return kinds
}
