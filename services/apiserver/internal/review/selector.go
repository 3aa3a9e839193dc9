package review

import (
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/authz"
)

// selectors puts the selectors of a review into the attributes, in the form that they have in a list's URL. What cannot be understood
// is left out, which allows no more, and told.
func selectors(r *authorizationv1.ResourceAttributes, a *authz.Attributes) (ignored []string) {
	tell := func(selector, text string, understood bool) {
		switch {
		case understood:
		case text == "":
			ignored = append(ignored, "spec.resourceAttributes."+selector+" ignored due to parse error")
		default:
			ignored = append(ignored, "spec.resourceAttributes."+selector+" partially ignored due to parse error")
		}
	}
	if f := r.FieldSelector; f != nil {
		text, understood := fieldText(f)
		a.FieldSelector = text
		tell("fieldSelector", text, understood)
	}
	if l := r.LabelSelector; l != nil {
		text, understood := labelText(l)
		a.LabelSelector = text
		tell("labelSelector", text, understood)
	}
	return ignored
}

func fieldText(f *authorizationv1.FieldSelectorAttributes) (text string, understood bool) {
	if f.RawSelector != "" {
		selector, err := fields.ParseSelector(f.RawSelector)
		if err != nil {
			return "", false
		}
		return selector.String(), true
	}
	var terms []string
	for _, req := range f.Requirements {
		switch {
		case req.Operator == metav1.FieldSelectorOpIn && len(req.Values) == 1:
			terms = append(terms, fields.OneTermEqualSelector(req.Key, req.Values[0]).String())
		case req.Operator == metav1.FieldSelectorOpNotIn && len(req.Values) == 1:
			terms = append(terms, fields.OneTermNotEqualSelector(req.Key, req.Values[0]).String())
		}
	}
	return strings.Join(terms, ","), len(terms) == len(f.Requirements) // selectors of fields know no more than these
}

var labelOperators = map[metav1.LabelSelectorOperator]selection.Operator{
	metav1.LabelSelectorOpIn: selection.In, metav1.LabelSelectorOpNotIn: selection.NotIn,
	metav1.LabelSelectorOpExists: selection.Exists, metav1.LabelSelectorOpDoesNotExist: selection.DoesNotExist,
}

func labelText(l *authorizationv1.LabelSelectorAttributes) (text string, understood bool) {
	if l.RawSelector != "" {
		selector, err := labels.Parse(l.RawSelector)
		if err != nil {
			return "", false
		}
		return selector.String(), true
	}
	selector := labels.NewSelector()
	understood = true
	for _, req := range l.Requirements {
		one, err := labels.NewRequirement(req.Key, labelOperators[req.Operator], req.Values)
		if err != nil {
			understood = false
			continue
		}
		selector = selector.Add(*one)
	}
	return selector.String(), understood
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
		errs = append(errs, checkSelector(f.RawSelector, all, path.Child("fieldSelector"), checkField)...)
	}
	if l := r.LabelSelector; l != nil {
		var all []requirement
		for _, req := range l.Requirements {
			all = append(all, requirement{req.Key, string(req.Operator), req.Values})
		}
		errs = append(errs, checkSelector(l.RawSelector, all, path.Child("labelSelector"), checkLabel)...)
	}
	return errs
}

func checkSelector(raw string, all []requirement, path *field.Path, check func(requirement, *field.Path) field.ErrorList) (errs field.ErrorList) {
	switch {
	case raw != "" && len(all) > 0:
		errs = append(errs, field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements"))
	case raw == "" && len(all) == 0:
		return field.ErrorList{field.Required(path.Child("requirements"), fmt.Sprintf("when %s is specified, requirements or rawSelector is required", path))}
	}
	for i, req := range all {
		errs = append(errs, check(req, path.Child("requirements").Index(i))...)
	}
	return errs
}

func checkField(req requirement, at *field.Path) (errs field.ErrorList) {
	if req.key == "" {
		errs = append(errs, field.Required(at.Child("key"), "must be specified"))
	}
	return append(errs, checkValues(req, at)...)
}

func checkLabel(req requirement, at *field.Path) field.ErrorList {
	errs := append(checkValues(req, at), metav1validation.ValidateLabelName(req.key, at.Child("key"))...)
	for i, value := range req.values {
		for _, text := range validation.IsValidLabelValue(value) {
			errs = append(errs, field.Invalid(at.Child("values").Index(i), value, text))
		}
	}
	return errs
}

// checkValues checks the values by the operator. One that nobody knows is allowed: the selector is left out.
func checkValues(req requirement, at *field.Path) field.ErrorList {
	switch req.operator {
	case "In", "NotIn":
		if len(req.values) == 0 {
			return field.ErrorList{field.Required(at.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'")}
		}
	case "Exists", "DoesNotExist":
		if len(req.values) > 0 {
			return field.ErrorList{field.Forbidden(at.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")}
		}
	}
	return nil
}
