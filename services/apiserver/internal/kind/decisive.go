package kind

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

// decisive are the resources by whose objects requests for others are decided: who may do what, what admission does, what is served and how soon. An
// asterisk is a whole group.
var decisive = map[schema.GroupResource]bool{
	{Resource: "namespaces"}:                                       true,
	{Resource: "serviceaccounts"}:                                  true,
	{Resource: "limitranges"}:                                      true,
	{Resource: "resourcequotas"}:                                   true,
	{Group: "admissionregistration.k8s.io", Resource: "*"}:         true,
	{Group: "apiextensions.k8s.io", Resource: "*"}:                 true,
	{Group: "apiregistration.k8s.io", Resource: "*"}:               true,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "*"}:         true,
	{Group: "networking.k8s.io", Resource: "ingressclasses"}:       true,
	{Group: "networking.k8s.io", Resource: "servicecidrs"}:         true,
	{Group: "node.k8s.io", Resource: "runtimeclasses"}:             true,
	{Group: "policy", Resource: "podsecuritypolicies"}:             true,
	{Group: "rbac.authorization.k8s.io", Resource: "*"}:            true,
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}:      true,
	{Group: "settings.k8s.io", Resource: "podpresets"}:             true,
	{Group: "storage.k8s.io", Resource: "storageclasses"}:          true,
	{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}: true,
}

// Decides reports whether requests for other objects are decided by those of a kind.
func Decides(k *registry.Kind) bool {
	gr := k.GroupResource()
	return decisive[gr] || decisive[schema.GroupResource{Group: gr.Group, Resource: "*"}]
}
