// Package apiservice is the kind APIService: who serves a version of an API
// group, this API itself or an extension API server behind a Service.
package apiservice

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

type service = apiregistrationv1.APIService

// Kind returns the kind; now is the clock for ages and conditions.
func Kind(now func() time.Time) *registry.Kind {
	k := row.Of[service, apiregistrationv1.APIServiceList](apiregistrationv1.SchemeGroupVersion, "apiservices")
	k.Categories = []string{"api-extensions"}
	k.NameIsValid = func(name string, _ bool) []string { return path.IsValidPathSegmentName(name) }
	k.Default = typed.Do(func(s *service) {
		if s.Spec.Service != nil {
			row.Set(&s.Spec.Service.Port, 443)
		}
	})
	k.PrepareCreate = typed.Do(func(s *service) {
		s.Status = apiregistrationv1.APIServiceStatus{}
		if s.Spec.Service == nil {
			s.Status.Conditions = []apiregistrationv1.APIServiceCondition{Local(now())}
		}
	})
	k.PrepareUpdate = typed.Change(func(s, old *service) { s.Status = old.Status })
	k.Status = &registry.Status{
		PrepareUpdate: typed.Change(func(s, old *service) {
			s.Spec, s.Labels, s.Annotations = old.Spec, old.Labels, old.Annotations
			s.Finalizers, s.OwnerReferences = old.Finalizers, old.OwnerReferences
		}),
		Untracked:      []string{"metadata"},
		Untabled:       true,
		ValidateUpdate: typed.CheckChange(func(s, _ *service) field.ErrorList { return validateConditions(s) }),
	}
	k.NeedsRevision = true
	k.Validate = typed.Check(validate)
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(),
		column.String("Service", "The reference to the service that hosts this API endpoint."),
		column.String("Available", "Whether this service is available."),
		column.Age(),
	}
	k.Cells = typed.Get(func(s *service) []any {
		return []any{s.Name, target(s), available(s), column.Since(now(), s.CreationTimestamp.Time)}
	})
	return k
}

// Local is the condition of what this API serves itself.
func Local(now time.Time) apiregistrationv1.APIServiceCondition {
	return apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)), Reason: "Local", Message: "Local APIServices are always available",
	}
}

func target(s *service) string {
	if s.Spec.Service == nil {
		return "Local"
	}
	return s.Spec.Service.Namespace + "/" + s.Spec.Service.Name
}

func available(s *service) string {
	for _, c := range s.Status.Conditions {
		if c.Type != apiregistrationv1.Available {
			continue
		}
		if c.Status != apiregistrationv1.ConditionTrue && c.Reason != "" {
			return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
		return string(c.Status)
	}
	return string(apiregistrationv1.ConditionUnknown)
}

func validate(s *service) field.ErrorList {
	spec, at := &s.Spec, field.NewPath("spec")
	var errs field.ErrorList
	want := spec.Version + "." + spec.Group
	for _, n := range []struct{ field, name string }{{"generateName", s.GenerateName}, {"name", s.Name}} { // the prefix, too, must be all of the name
		if n.name != "" && n.name != want && len(path.IsValidPathSegmentName(n.name)) == 0 {
			errs = append(errs, field.Invalid(field.NewPath("metadata", n.field), n.name, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", want)))
		}
	}
	switch {
	case spec.Group == "" && spec.Version != "v1":
		errs = append(errs, field.Required(at.Child("group"), "only v1 may have an empty group and it better be legacy kube"))
	case spec.Group != "":
		errs = append(errs, check.Subdomain(spec.Group, at.Child("group"))...)
	}
	errs = append(errs, check.Each(validation.IsDNS1035Label(spec.Version), spec.Version, at.Child("version"))...)
	if p := spec.GroupPriorityMinimum; p <= 0 || p > 20000 {
		errs = append(errs, field.Invalid(at.Child("groupPriorityMinimum"), p, "must be positive and less than 20000"))
	}
	if p := spec.VersionPriority; p <= 0 || p > 1000 {
		errs = append(errs, field.Invalid(at.Child("versionPriority"), p, "must be positive and less than 1000"))
	}
	if spec.Service == nil {
		if len(spec.CABundle) > 0 {
			errs = append(errs, field.Invalid(at.Child("caBundle"), fmt.Sprintf("%d bytes", len(spec.CABundle)), "local APIServices may not have a caBundle"))
		}
		if spec.InsecureSkipTLSVerify {
			errs = append(errs, field.Invalid(at.Child("insecureSkipTLSVerify"), true, "local APIServices may not have insecureSkipTLSVerify"))
		}
		return append(errs, validateConditions(s)...)
	}
	return append(append(errs, validateService(spec, at)...), validateConditions(s)...)
}

func validateService(spec *apiregistrationv1.APIServiceSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Service.Namespace == "" {
		errs = append(errs, field.Required(at.Child("service", "namespace"), ""))
	}
	if spec.Service.Name == "" {
		errs = append(errs, field.Required(at.Child("service", "name"), ""))
	}
	if port := row.Deref(spec.Service.Port); len(validation.IsValidPortNum(int(port))) > 0 {
		errs = append(errs, field.Invalid(at.Child("service", "port"), port, "port is not valid: "+strings.Join(validation.IsValidPortNum(int(port)), ", ")))
	}
	if spec.InsecureSkipTLSVerify && len(spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(at.Child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present"))
	}
	return errs
}

func validateConditions(s *service) field.ErrorList {
	var errs field.ErrorList
	for i, c := range s.Status.Conditions {
		errs = append(errs, check.Listed(c.Status, field.NewPath("status", "conditions").Index(i).Child("status"),
			apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown)...)
	}
	return errs
}
