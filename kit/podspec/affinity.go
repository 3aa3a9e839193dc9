package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

func validateAffinity(a *corev1.Affinity, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	if n := a.NodeAffinity; n != nil {
		errs = append(errs, validateNodeAffinity(n, path.Child("nodeAffinity"))...)
	}
	if p := a.PodAffinity; p != nil {
		errs = append(errs, validatePodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution,
			p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))...)
	}
	if p := a.PodAntiAffinity; p != nil {
		errs = append(errs, validatePodTerms(p.RequiredDuringSchedulingIgnoredDuringExecution,
			p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))...)
	}
	return errs
}

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

func validateNodeAffinity(a *corev1.NodeAffinity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		errs = append(errs, NodeSelector(a.RequiredDuringSchedulingIgnoredDuringExecution, path.Child(required))...)
	}
	for i, p := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		at := path.Child(preferred).Index(i)
		errs = append(errs, validateWeight(p.Weight, at.Child("weight"))...)
		// Values that no label can have only match nothing: see the warnings.
		errs = append(errs, validateNodeTerm(&p.Preference, false, at.Child("preference"))...)
	}
	return errs
}

func validateWeight(w int32, path *field.Path) field.ErrorList {
	if w < 1 || w > 100 {
		return field.ErrorList{field.Invalid(path, w, "must be in the range 1-100")}
	}
	return nil
}

// NodeSelector checks a choice of nodes by alternative terms.
func NodeSelector(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	at := path.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(at, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i := range s.NodeSelectorTerms {
		errs = append(errs, validateNodeTerm(&s.NodeSelectorTerms[i], true, at.Index(i))...)
	}
	return errs
}

func validateNodeTerm(t *corev1.NodeSelectorTerm, values bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range t.MatchExpressions {
		errs = append(errs, validateNodeRequirement(&t.MatchExpressions[i], values, path.Child("matchExpressions").Index(i))...)
	}
	for i := range t.MatchFields {
		errs = append(errs, validateNodeField(&t.MatchFields[i], path.Child("matchFields").Index(i))...)
	}
	return errs
}

func validateNodeRequirement(r *corev1.NodeSelectorRequirement, strict bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	values := path.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	errs = append(errs, metavalidation.ValidateLabelName(r.Key, path.Child("key"))...)
	for i, v := range r.Values {
		if !strict {
			break
		}
		errs = append(errs, check.Each(validation.IsValidLabelValue(v), v, values.Index(i))...)
	}
	return errs
}

// validateNodeField checks a requirement on the one field that nodes are chosen by, their name.
func validateNodeField(r *corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(path.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(path.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, v := range r.Values {
		errs = append(errs, check.Each(apivalidation.NameIsDNSSubdomain(v, false), v, path.Child("values").Index(i))...)
	}
	return errs
}

func validatePodTerms(must []corev1.PodAffinityTerm, rather []corev1.WeightedPodAffinityTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range must {
		errs = append(errs, validatePodTerm(&must[i], path.Child(required).Index(i))...)
	}
	for i := range rather {
		at := path.Child(preferred).Index(i)
		errs = append(errs, validateWeight(rather[i].Weight, at.Child("weight"))...)
		errs = append(errs, validatePodTerm(&rather[i].PodAffinityTerm, at.Child("podAffinityTerm"))...)
	}
	return errs
}

func validatePodTerm(t *corev1.PodAffinityTerm, path *field.Path) field.ErrorList {
	opts := metavalidation.LabelSelectorValidationOptions{}
	errs := metavalidation.ValidateLabelSelector(t.LabelSelector, opts, path.Child("labelSelector"))
	errs = append(errs, metavalidation.ValidateLabelSelector(t.NamespaceSelector, opts, path.Child("namespaceSelector"))...)
	for _, ns := range t.Namespaces {
		errs = append(errs, check.Each(apivalidation.ValidateNamespaceName(ns, false), ns, path.Child("namespace"))...)
	}
	errs = append(errs, validateLabelKeys(t.MatchLabelKeys, t.LabelSelector, path.Child("matchLabelKeys"))...)
	errs = append(errs, validateLabelKeys(t.MismatchLabelKeys, t.LabelSelector, path.Child("mismatchLabelKeys"))...)
	errs = append(errs, repeatedKeys(t.MatchLabelKeys, t.LabelSelector, path)...)
	for i, k := range t.MatchLabelKeys {
		if slices.Contains(t.MismatchLabelKeys, k) {
			errs = append(errs, field.Invalid(path.Child("matchLabelKeys").Index(i), k, "exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	if t.TopologyKey == "" {
		errs = append(errs, field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	return append(errs, metavalidation.ValidateLabelName(t.TopologyKey, path.Child("topologyKey"))...)
}

// validateLabelKeys checks keys whose values the pod's own labels give.
func validateLabelKeys(keys []string, selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if len(keys) == 0 {
		return nil
	}
	if selector == nil {
		return field.ErrorList{field.Forbidden(path, "must not be specified when labelSelector is not set")}
	}
	var errs field.ErrorList
	for i, k := range keys {
		errs = append(errs, metavalidation.ValidateLabelName(k, path.Index(i))...)
	}
	return errs
}

// repeatedKeys refuses a selector that speaks of a key of matchLabelKeys by itself: it has one requirement of each, which MergeLabelKeys
// has put in. The path of the term is what is told.
func repeatedKeys(keys []string, selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if selector == nil || len(keys) == 0 {
		return nil
	}
	var errs field.ErrorList
	seen, last := map[string]bool{}, map[string]int{}
	for i, k := range keys {
		last[k] = i
	}
	for k := range selector.MatchLabels {
		seen[k] = true
	}
	for _, r := range selector.MatchExpressions {
		if i, ok := last[r.Key]; ok && seen[r.Key] {
			errs = append(errs, field.Invalid(path.Index(i), r.Key, "exists in both matchLabelKeys and labelSelector"))
		}
		seen[r.Key] = true
	}
	return errs
}

// MergeLabelKeys adds what the keys of pods' labels say to the selectors of a new pod that has the labels.
func MergeLabelKeys(spec *corev1.PodSpec, labels map[string]string) {
	merge := func(s *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator) {
		if s == nil { // it matches nothing, whatever is added
			return
		}
		for _, k := range keys {
			if value, ok := labels[k]; ok {
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: k, Operator: op, Values: []string{value}})
			}
		}
	}
	term := func(t *corev1.PodAffinityTerm) {
		merge(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
		merge(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	}
	terms := func(must []corev1.PodAffinityTerm, rather []corev1.WeightedPodAffinityTerm) {
		for i := range must {
			term(&must[i])
		}
		for i := range rather {
			term(&rather[i].PodAffinityTerm)
		}
	}
	if a := spec.Affinity; a != nil && a.PodAffinity != nil {
		terms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		terms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		merge(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
}
