package hook

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// fieldRequirements are the terms of a field selector; one that cannot be read has none, which allows no more.
func fieldRequirements(text string) (all []metav1.FieldSelectorRequirement) {
	selector, err := fields.ParseSelector(text)
	if err != nil {
		return nil
	}
	for _, r := range selector.Requirements() {
		operator := metav1.FieldSelectorOpIn
		if r.Operator == selection.NotEquals {
			operator = metav1.FieldSelectorOpNotIn
		}
		all = append(all, metav1.FieldSelectorRequirement{Key: r.Field, Operator: operator, Values: []string{r.Value}})
	}
	return all
}

var labelOperators = map[selection.Operator]metav1.LabelSelectorOperator{
	selection.In: metav1.LabelSelectorOpIn, selection.Equals: metav1.LabelSelectorOpIn, selection.DoubleEquals: metav1.LabelSelectorOpIn,
	selection.NotIn: metav1.LabelSelectorOpNotIn, selection.NotEquals: metav1.LabelSelectorOpNotIn,
	selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
}

func labelRequirements(text string) (all []metav1.LabelSelectorRequirement) {
	selector, err := labels.Parse(text)
	if err != nil {
		return nil
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		if operator, ok := labelOperators[r.Operator()]; ok { // comparisons of numbers have no operator in a review
			all = append(all, metav1.LabelSelectorRequirement{Key: r.Key(), Operator: operator, Values: r.Values().List()})
		}
	}
	return all
}
