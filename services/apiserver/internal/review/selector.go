package review

import (
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/authz"
)

// selectors puts the selectors of a review into the attributes, in the form that they have in a list's URL.
func selectors(r *authorizationv1.ResourceAttributes, a *authz.Attributes) error {
	var errs []error
	if f := r.FieldSelector; f != nil {
		text, err := fieldText(f)
		a.FieldSelector, errs = text, append(errs, err)
	}
	if l := r.LabelSelector; l != nil {
		text, err := labelText(l)
		a.LabelSelector, errs = text, append(errs, err)
	}
	return errors.Join(errs...)
}

func fieldText(f *authorizationv1.FieldSelectorAttributes) (string, error) {
	if f.RawSelector != "" {
		selector, err := fields.ParseSelector(f.RawSelector)
		if err != nil {
			return "", fmt.Errorf("spec.resourceAttributes.fieldSelector.rawSelector: %w", err)
		}
		return selector.String(), nil
	}
	var terms []string
	var errs []error
	for _, req := range f.Requirements {
		switch {
		case req.Operator == metav1.FieldSelectorOpIn && len(req.Values) == 1:
			terms = append(terms, fields.OneTermEqualSelector(req.Key, req.Values[0]).String())
		case req.Operator == metav1.FieldSelectorOpNotIn && len(req.Values) == 1:
			terms = append(terms, fields.OneTermNotEqualSelector(req.Key, req.Values[0]).String())
		case req.Operator == metav1.FieldSelectorOpIn, req.Operator == metav1.FieldSelectorOpNotIn:
			errs = append(errs, fmt.Errorf("fieldSelectors do not yet support multiple values"))
		default:
			errs = append(errs, fmt.Errorf("%q is not a valid field selector operator", req.Operator))
		}
	}
	return strings.Join(terms, ","), errors.Join(errs...)
}

var labelOperators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
	metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

func labelText(l *authorizationv1.LabelSelectorAttributes) (string, error) {
	if l.RawSelector != "" {
		selector, err := labels.Parse(l.RawSelector)
		if err != nil {
			return "", fmt.Errorf("spec.resourceAttributes.labelSelector.rawSelector: %w", err)
		}
		return selector.String(), nil
	}
	selector := labels.NewSelector()
	var errs []error
	for _, req := range l.Requirements {
		operator, ok := labelOperators[req.Operator]
		if !ok {
			errs = append(errs, fmt.Errorf("%q is not a valid label selector operator", req.Operator))
			continue
		}
		one, err := labels.NewRequirement(req.Key, operator, req.Values)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		selector = selector.Add(*one)
	}
	return selector.String(), errors.Join(errs...)
}

// requirement is what the two selectors' requirements have in common.
type requirement struct {
	key, operator string
	values        []string
}

func checkSelectors(r *authorizationv1.ResourceAttributes, path *field.Path) (errs field.ErrorList) {
	if f := r.FieldSelector; f != nil {
		var all []requirement
		for _, req := range f.Requirements {
			all = append(all, requirement{req.Key, string(req.Operator), req.Values})
		}
		errs = append(errs, checkSelector(f.RawSelector, all, path.Child("fieldSelector"))...)
	}
	if l := r.LabelSelector; l != nil {
		var all []requirement
		for _, req := range l.Requirements {
			all = append(all, requirement{req.Key, string(req.Operator), req.Values})
		}
		errs = append(errs, checkSelector(l.RawSelector, all, path.Child("labelSelector"))...)
	}
	return errs
}

func checkSelector(raw string, all []requirement, path *field.Path) (errs field.ErrorList) {
	switch {
	case raw != "" && len(all) > 0:
		return field.ErrorList{field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && len(all) == 0:
		return field.ErrorList{field.Required(path.Child("requirements"), fmt.Sprintf("when %s is specified, requirements or rawSelector is required", path))}
	}
	for i, req := range all {
		at := path.Child("requirements").Index(i)
		if req.key == "" {
			errs = append(errs, field.Required(at.Child("key"), "must be specified"))
		}
		switch req.operator {
		case "In", "NotIn":
			if len(req.values) == 0 {
				errs = append(errs, field.Required(at.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
			}
		case "Exists", "DoesNotExist":
			if len(req.values) > 0 {
				errs = append(errs, field.Forbidden(at.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
			}
		default:
			errs = append(errs, field.Invalid(at.Child("operator"), req.operator, "not a valid selector operator"))
		}
	}
	return errs
}
