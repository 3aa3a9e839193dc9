package objects

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/object"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// maxObject is the largest request body, in bytes.
const maxObject = 3 << 20

var (
	scaleGVK   = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	noResource = schema.GroupResource{}
	statusGVK  = schema.GroupVersionKind{Version: "v1", Kind: "Status"}
)

// options are what the write requests have in common.
type options struct {
	dryRun     bool
	manager    string
	validation codec.Validation
	// level is the validation that the request names itself.
	level string
}

// writeOptions checks the options of a create or update; what names the kind of options in errors.
func writeOptions(what string, dryRun []string, manager, level string) (options, error) {
	errs := metav1validation.ValidateFieldManager(manager, field.NewPath("fieldManager"))
	errs = append(errs, metav1validation.ValidateDryRun(field.NewPath("dryRun"), dryRun)...)
	errs = append(errs, metav1validation.ValidateFieldValidation(field.NewPath("fieldValidation"), level)...)
	if len(errs) > 0 {
		return options{}, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: what}, "", errs)
	}
	named := level
	if level == "" {
		level = string(codec.Warn)
	}
	return options{dryRun: len(dryRun) > 0, manager: manager, validation: codec.Validation(level), level: named}, nil
}

// decode reads an object of the request's version, and defaults it there.
func decode(r *request, body []byte, contentType string, level codec.Validation) (registry.Object, error) {
	obj := r.res.New()
	warnings, err := codec.Body{Data: body, ContentType: contentType, Validation: level, Kind: r.res.Kind, Offer: r.offer}.Into(obj, r.res.GVK)
	for _, w := range warnings {
		r.warn(w)
	}
	return obj, err
}

// stored turns an object of the request's version into a defaulted one of the storage version.
func stored(r *request, obj registry.Object) (registry.Object, error) {
	r.res.Default(obj)
	out, err := r.res.ToStored(obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out.GetObjectKind().SetGroupVersionKind(r.res.Kind.GVK)
	return out, nil
}

// checkNamespace fills in the namespace of the URL, or refuses another one.
func checkNamespace(r *request, obj metav1.Object) error {
	if !r.res.Kind.Namespaced {
		if obj.GetNamespace() != "" {
			obj.SetNamespace("")
		}
		return nil
	}
	if r.namespace == "" { // what the object says does not count: it is refused for want of one
		obj.SetNamespace("")
	}
	switch obj.GetNamespace() {
	case "":
		obj.SetNamespace(r.namespace)
	case r.namespace:
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// plain is the 500 of an error that Kubernetes has no name for: its text and no more.
func plain(err error) error {
	if api := apierrors.APIStatus(nil); errors.As(err, &api) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
	}}
}

// checkName refuses an object of another name than the URL's.
func checkName(r *request, obj metav1.Object) error {
	switch obj.GetName() {
	case r.name:
		return nil
	case "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", r.name))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), r.name))
}

// newMeta gives an object what the server alone decides at its creation.
func (s *Server) newMeta(obj metav1.Object) {
	obj.SetUID(uuid.NewUUID())
	obj.SetCreationTimestamp(metav1.Time{Time: s.now()})
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetResourceVersion("")
	obj.SetSelfLink("")
}

const suffixAlphabet = "bcdfghjklmnpqrstvwxz2456789" // no vowels and nothing that looks like another

// generateName makes a name of at most 63 characters: the prefix and five random ones.
func generateName(prefix string) string {
	var suffix [object.SuffixLength]byte
	for i := range suffix {
		suffix[i] = suffixAlphabet[rand.IntN(len(suffixAlphabet))]
	}
	return object.NamePrefix(prefix) + string(suffix[:])
}

// validate returns every problem of a new object.
func validate(r *request, obj registry.Object) field.ErrorList {
	kind := r.res.Kind
	if v := r.res.Version; v != nil && v.Validate != nil {
		return v.Validate(obj, nil, wholeMeta(r, accessor(obj)))
	}
	var errs field.ErrorList
	if !kind.MetaIsFree {
		errs = wholeMeta(r, accessor(obj))
	}
	if kind.Validate != nil {
		errs = append(errs, kind.Validate(obj)...)
	}
	if kind.ValidateCreate != nil {
		errs = append(errs, kind.ValidateCreate(obj)...)
	}
	if len(errs) > 0 {
		return errs
	}
	// Whatever the kind thinks of names, this one has to be a part of a path.
	if kind.MetaIsFree || len(path.IsValidPathSegmentName(obj.GetName())) > 0 {
		return validation.ValidateObjectMetaAccessor(accessor(obj), kind.Namespaced, path.ValidatePathSegmentName, field.NewPath("metadata"))
	}
	return nil
}

// nameIsValid is the check of names of the request's kind and version.
func nameIsValid(r *request) validation.ValidateNameFunc {
	valid := r.res.Kind.NameIsValid
	if v := r.res.Version; valid == nil || v != nil && v.Validate != nil {
		valid = validation.NameIsDNSSubdomain
	}
	if !r.res.Kind.PrefixIsFree {
		return valid
	}
	return func(name string, prefix bool) []string {
		if prefix {
			return nil
		}
		return valid(name, false)
	}
}

// standardFinalizers are those that no domain has to precede.
var standardFinalizers = []string{string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}

// qualifiesFinalizers reports whether the finalizers of a kind have to be qualified by a domain. Where the validation of a kind
// comes from outside the core group, or is of the plain metadata, they need not.
func qualifiesFinalizers(kind *registry.Kind) bool {
	if kind.Custom != nil {
		return false
	}
	switch kind.GVK.Group {
	case "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "coordination.k8s.io", "node.k8s.io", "policy":
		return false
	}
	return kind.GVK.Kind != "Event"
}

func validateFinalizers(names []string, path *field.Path) (errs field.ErrorList) {
	for i, name := range names {
		if !strings.Contains(name, "/") && !slices.Contains(standardFinalizers, name) {
			errs = append(errs, field.Invalid(path.Index(i), name, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// dedupeOwners drops owner references that are equal to earlier ones, with a warning. What was sent is looked at when it comes, and everything once
// more after admission: patches then only.
func dedupeOwners(r *request, obj metav1.Object, admitted bool) {
	owners := obj.GetOwnerReferences()
	if len(owners) < 2 {
		return
	}
	kept := make([]metav1.OwnerReference, 0, len(owners))
	var repeated []string
	for _, o := range owners {
		if slices.ContainsFunc(kept, func(k metav1.OwnerReference) bool { return k.UID == o.UID && apiequality.Semantic.DeepEqual(k, o) }) {
			repeated = append(repeated, string(o.UID))
			continue
		}
		kept = append(kept, o)
	}
	if len(repeated) == 0 {
		return
	}
	where := ""
	if admitted {
		where = " after mutating admission happens"
	}
	r.warn(".metadata.ownerReferences contains duplicate entries" + where + "; API server dedups owner references in 1.20+, " +
		"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: " + strings.Join(repeated, ", "))
	obj.SetOwnerReferences(kept)
}

// success is the Status that answers what has no object to answer with.
func success(r *request, name, uid string) runtime.Object {
	return &metav1.Status{
		Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: name, Group: r.res.GVR.Group, Kind: r.res.GVR.Resource, UID: typesUID(uid),
		},
	}
}
