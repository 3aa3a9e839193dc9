package plugin

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/score"
)

// NodeLabelArgs are the arguments of NodeLabel, as Kubernetes had them in kubescheduler.config.k8s.io/v1beta1.
type NodeLabelArgs struct {
	metav1.TypeMeta `json:",inline"`

	// PresentLabels are the keys of labels that a node must have, and AbsentLabels those that it must not have.
	PresentLabels []string `json:"presentLabels,omitempty"`
	AbsentLabels  []string `json:"absentLabels,omitempty"`
	// PresentLabelsPreference are those for which a node is preferred, and AbsentLabelsPreference those for the lack of which it is.
	PresentLabelsPreference []string `json:"presentLabelsPreference,omitempty"`
	AbsentLabelsPreference  []string `json:"absentLabelsPreference,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (a *NodeLabelArgs) DeepCopyObject() runtime.Object {
	return &NodeLabelArgs{
		a.TypeMeta, slices.Clone(a.PresentLabels), slices.Clone(a.AbsentLabels),
		slices.Clone(a.PresentLabelsPreference), slices.Clone(a.AbsentLabelsPreference),
	}
}

// ServiceAffinityArgs are the arguments of ServiceAffinity, as Kubernetes had them in kubescheduler.config.k8s.io/v1beta1.
type ServiceAffinityArgs struct {
	metav1.TypeMeta `json:",inline"`

	// AffinityLabels are the keys of labels of which all nodes with pods of a Service have the same values.
	AffinityLabels []string `json:"affinityLabels,omitempty"`
	// AntiAffinityLabelsPreference are those over the values of which the pods of a Service are spread.
	AntiAffinityLabelsPreference []string `json:"antiAffinityLabelsPreference,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (a *ServiceAffinityArgs) DeepCopyObject() runtime.Object {
	return &ServiceAffinityArgs{a.TypeMeta, slices.Clone(a.AffinityLabels), slices.Clone(a.AntiAffinityLabelsPreference)}
}

var serviceArgs = argsOf(func(*ServiceAffinityArgs) {}, func(path *field.Path, a *ServiceAffinityArgs) field.ErrorList {
	errs := checkLabels(path.Child("affinityLabels"), a.AffinityLabels)
	return append(errs, checkLabels(path.Child("antiAffinityLabelsPreference"), a.AntiAffinityLabelsPreference)...)
})

func serviceFilter(a *ServiceAffinityArgs) filter.Filter {
	return filter.ServiceAffinity(a.AffinityLabels)
}

func serviceScore(a *ServiceAffinityArgs) score.Score {
	return score.ServiceAffinity(a.AntiAffinityLabelsPreference)
}

var labelArgs = argsOf(func(*NodeLabelArgs) {}, func(path *field.Path, a *NodeLabelArgs) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		name   string
		labels []string
	}{
		{"presentLabels", a.PresentLabels}, {"absentLabels", a.AbsentLabels},
		{"presentLabelsPreference", a.PresentLabelsPreference}, {"absentLabelsPreference", a.AbsentLabelsPreference},
	} {
		errs = append(errs, checkLabels(path.Child(list.name), list.labels)...)
	}
	errs = append(errs, checkConflict(path.Child("presentLabels"), a.PresentLabels, a.AbsentLabels)...)
	return append(errs, checkConflict(path.Child("presentLabelsPreference"), a.PresentLabelsPreference, a.AbsentLabelsPreference)...)
})

func checkLabels(path *field.Path, labels []string) (errs field.ErrorList) {
	for i, label := range labels {
		errs = append(errs, metavalidation.ValidateLabelName(label, path.Index(i))...)
	}
	return errs
}

// checkConflict refuses a label that is to be there and not to be there.
func checkConflict(path *field.Path, present, absent []string) field.ErrorList {
	for i, label := range present {
		if slices.Contains(absent, label) {
			return field.ErrorList{field.Invalid(path.Index(i), label,
				fmt.Sprintf("detecting at least one label (e.g., %q) that exist in both the present(%+v) and absent(%+v) label list", label, present, absent))}
		}
	}
	return nil
}

func labelFilter(a *NodeLabelArgs) filter.Filter {
	return filter.NodeLabel(a.PresentLabels, a.AbsentLabels)
}

func labelScore(a *NodeLabelArgs) score.Score {
	return score.NodeLabel(a.PresentLabelsPreference, a.AbsentLabelsPreference)
}
