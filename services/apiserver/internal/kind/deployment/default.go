package deployment

import (
	"maps"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/kit/podspec"
)

// defaults are the values in which the versions of Deployment differ.
type defaults struct {
	// step is maxSurge and maxUnavailable.
	step              intstr.IntOrString
	history, deadline int32
	// fromTemplate takes the selector, and the labels of a Deployment without
	// labels, from those of the template.
	fromTemplate bool
}

// forever is how a history limit or a progress deadline says that there is none.
const forever = math.MaxInt32

var (
	appsV1      = defaults{step: intstr.FromString("25%"), history: 10, deadline: 600}
	appsV1beta2 = appsV1
	appsV1beta1 = defaults{step: intstr.FromString("25%"), history: 2, deadline: 600, fromTemplate: true}
	extensions  = defaults{step: intstr.FromInt32(1), history: forever, deadline: forever, fromTemplate: true}
)

func (v defaults) fill(d *appsv1.Deployment) {
	spec := &d.Spec
	if labels := spec.Template.Labels; v.fromTemplate && len(labels) > 0 {
		if spec.Selector == nil {
			spec.Selector = &metav1.LabelSelector{MatchLabels: maps.Clone(labels)}
		}
		if len(d.Labels) == 0 {
			d.Labels = maps.Clone(labels)
		}
	}
	setPtr(&spec.Replicas, 1)
	setPtr(&spec.RevisionHistoryLimit, v.history)
	setPtr(&spec.ProgressDeadlineSeconds, v.deadline)
	if spec.Strategy.Type == "" {
		spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		if spec.Strategy.RollingUpdate == nil {
			spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
		setPtr(&spec.Strategy.RollingUpdate.MaxUnavailable, v.step)
		setPtr(&spec.Strategy.RollingUpdate.MaxSurge, v.step)
	}
	podspec.Default(&spec.Template.Spec)
}

func setPtr[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
