package objects

import (
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/registry"
)

// part is a part of the check of an update.
type part int

const (
	// whole is the check of metadata as if the object were new.
	whole part = iota
	// changed is that of the changes of metadata.
	changed
	// kinds is the kind's Validate.
	kinds
	// rules are the kind's or the subresource's ValidateUpdate.
	rules
)

// The orders in which Kubernetes checks updates; clients see them in the order of the causes, and in how often one of the metadata is
// repeated.
var (
	changedFirst  = []part{changed, kinds, rules}
	rulesFirst    = []part{changed, rules, kinds}
	changedWhole  = []part{changed, whole, kinds, rules}
	rulesWhole    = []part{changed, rules, whole, kinds}
	wholeFirst    = []part{whole, kinds, changed, rules}
	wholeAlone    = []part{whole, kinds, rules}
	wholeTwice    = []part{whole, kinds, whole, kinds, rules}
	changedNoted  = []part{changed, kinds, whole, rules}
	ownAlone      = []part{kinds, rules}
	changedStatus = []part{changed, rules}
	ownStatus     = []part{rules}
	wholeStatus   = []part{whole, rules}
	signedStatus  = []part{whole, changed, rules}
	podStatus     = []part{changed, whole, rules}
)

// orders are those of updates of objects; changedFirst is that of the others.
var orders = map[schema.GroupResource][]part{
	{Resource: "events"}:                                                                   ownAlone,
	{Group: "events.k8s.io", Resource: "events"}:                                           ownAlone,
	{Group: "policy", Resource: "poddisruptionbudgets"}:                                    ownAlone,
	{Group: "apps", Resource: "daemonsets"}:                                                rulesFirst,
	{Resource: "pods"}:                                                                     changedWhole,
	{Resource: "persistentvolumeclaims"}:                                                   changedWhole,
	{Resource: "endpoints"}:                                                                changedWhole,
	{Resource: "limitranges"}:                                                              wholeAlone,
	{Resource: "configmaps"}:                                                               rulesWhole,
	{Resource: "secrets"}:                                                                  rulesWhole,
	{Resource: "serviceaccounts"}:                                                          changedWhole,
	{Group: "apps", Resource: "controllerrevisions"}:                                       changedWhole,
	{Group: "networking.k8s.io", Resource: "ingresses"}:                                    changedWhole,
	{Group: "networking.k8s.io", Resource: "ingressclasses"}:                               changedWhole,
	{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}:                         rulesWhole,
	{Resource: "nodes"}:                                                                    wholeFirst,
	{Resource: "namespaces"}:                                                               wholeFirst,
	{Group: "batch", Resource: "jobs"}:                                                     wholeFirst,
	{Group: "networking.k8s.io", Resource: "ipaddresses"}:                                  wholeFirst,
	{Group: "resource.k8s.io", Resource: "resourceclaims"}:                                 wholeFirst,
	{Group: "resource.k8s.io", Resource: "resourceclaimtemplates"}:                         wholeFirst,
	{Group: "resource.k8s.io", Resource: "deviceclasses"}:                                  wholeFirst,
	{Group: "storage.k8s.io", Resource: "storageclasses"}:                                  wholeFirst,
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"}:                            wholeFirst,
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}:                 wholeFirst,
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:                                wholeFirst,
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:                         wholeFirst,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:                         wholeFirst,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}:                  wholeFirst,
	{Group: "node.k8s.io", Resource: "runtimeclasses"}:                                     wholeFirst,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       wholeAlone,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: wholeAlone,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}:         wholeAlone,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"}:   wholeAlone,
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}:   wholeAlone,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:     wholeAlone,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                       wholeAlone,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}:       wholeAlone,
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:                               wholeAlone,
	{Group: "storage.k8s.io", Resource: "csinodes"}:                                        wholeAlone,
	{Group: "discovery.k8s.io", Resource: "endpointslices"}:                                wholeAlone,
	{Resource: "persistentvolumes"}:                                                        wholeTwice,
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                             changedNoted,
}

// written is a subresource.
type written struct {
	resource    schema.GroupResource
	subresource string
}

// statusOrders are those of writes to subresources; changedStatus is that of the others.
var statusOrders = map[written][]part{
	{schema.GroupResource{Group: "batch", Resource: "cronjobs"}, "status"}:                                           ownStatus,
	{schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}, "status"}:                              ownStatus,
	{schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}, "status"}: ownStatus,
	{schema.GroupResource{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}, "status"}:                 ownStatus,
	{schema.GroupResource{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}, "status"}: ownStatus,
	{schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}, "status"}:                         wholeStatus,
	{schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}, "status"}:           signedStatus,
	{schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}, "approval"}:         signedStatus,
	{schema.GroupResource{Resource: "pods"}, "resize"}:                                                               podStatus,
	{schema.GroupResource{Resource: "pods"}, "ephemeralcontainers"}:                                                  podStatus,
}

// validateUpdate returns every problem of a changed object; status is nil for a change of the object itself.
func validateUpdate(r *request, obj, old registry.Object, status *registry.Status) field.ErrorList {
	kind, at := r.res.Kind, field.NewPath("metadata")
	meta, oldMeta := accessor(obj), accessor(old)
	errs := validateIdentity(r, obj, old)
	if v := r.res.Version; status == nil && v != nil && v.Validate != nil {
		meta := validation.ValidateObjectMetaAccessorUpdate(obj, old, at)
		return append(errs, v.Validate(obj, old, append(meta, validateFinalizers(obj.GetFinalizers(), at.Child("finalizers"))...))...)
	}
	change, tolerates, order := kind.ValidateUpdate, kind.Tolerates, changedFirst
	if o, ok := orders[kind.GroupResource()]; ok {
		order = o
	}
	if status != nil {
		change, tolerates, order = status.ValidateUpdate, status.Tolerates, changedStatus
		if o, ok := statusOrders[written{kind.GroupResource(), r.subresource}]; ok {
			order = o
		}
	}
	for _, p := range order {
		switch {
		case p == whole:
			errs = append(errs, wholeMeta(r, meta)...)
		case p == changed:
			errs = append(errs, changedMeta(kind, meta, oldMeta)...)
		case p == kinds && kind.Ratchet != nil:
			errs = append(errs, kind.Ratchet(obj, old)...)
		case p == kinds && kind.Validate != nil:
			errs = append(errs, kind.Validate(obj)...)
		case p == rules && tolerates != nil:
			more, tolerated := tolerates(obj, old)
			errs, r.tolerated = append(errs, more...), tolerated
		case p == rules && change != nil:
			errs = append(errs, change(obj, old)...)
		}
	}
	return errs
}

// validateIdentity returns the problems of changed metadata that are the same for all kinds.
func validateIdentity(r *request, obj, old registry.Object) field.ErrorList {
	meta, at := accessor(obj), field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(meta, r.res.Kind.Namespaced, path.ValidatePathSegmentName, at)
	return append(errs, validation.ValidateObjectMetaAccessorUpdate(meta, accessor(old), at)...)
}

// validateAsNew returns every problem of an update of what nothing acts on yet: only its identity may not change.
func validateAsNew(r *request, obj, old registry.Object) field.ErrorList {
	return append(changedMeta(r.res.Kind, accessor(obj), accessor(old)), validate(r, obj)...)
}

// wholeMeta checks metadata as those of a new object.
func wholeMeta(r *request, obj metav1.Object) field.ErrorList {
	kind, at := r.res.Kind, field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(obj, kind.Namespaced, nameIsValid(r), at)
	if qualifiesFinalizers(kind) {
		errs = append(errs, validateFinalizers(obj.GetFinalizers(), at.Child("finalizers"))...)
	}
	return errs
}

func changedMeta(kind *registry.Kind, obj, old metav1.Object) field.ErrorList {
	at := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessorUpdate(obj, old, at)
	if qualifiesFinalizers(kind) {
		errs = append(errs, validateFinalizers(obj.GetFinalizers(), at.Child("finalizers"))...)
	}
	return errs
}
