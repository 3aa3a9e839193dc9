package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/workload"
)

// validate checks a set; of one that is not new, what cannot change any more is left alone, and where it was faulty before, the template, too.
func validate(s *appsv1.StatefulSet, isNew, faulty bool) field.ErrorList {
	spec, path := &s.Spec, field.NewPath("spec")
	var errs field.ErrorList
	switch spec.PodManagementPolicy {
	case "":
		errs = append(errs, field.Required(path.Child("podManagementPolicy"), ""))
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		errs = append(errs, field.Invalid(path.Child("podManagementPolicy"), spec.PodManagementPolicy, "must be 'OrderedReady' or 'Parallel'"))
	}
	errs = append(errs, validateStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	errs = append(errs, validateRetention(spec.PersistentVolumeClaimRetentionPolicy, path.Child("persistentVolumeClaimRetentionPolicy"))...)
	for i := range spec.VolumeClaimTemplates {
		if isNew {
			errs = append(errs, podspec.ClaimSpec(&spec.VolumeClaimTemplates[i].Spec, path.Child("volumeClaimTemplates").Index(i).Child("spec"))...)
		}
	}
	errs = append(errs, check.NonNegative(row.Deref(spec.Replicas), path.Child("replicas"))...)
	errs = append(errs, check.NonNegative(spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	if spec.Ordinals != nil {
		errs = append(errs, check.NonNegative(spec.Ordinals.Start, path.Child("ordinals", "start"))...)
	}
	if isNew && spec.ServiceName != "" {
		errs = append(errs, check.Each(apivalidation.NameIsDNSLabel(spec.ServiceName, false), spec.ServiceName, path.Child("serviceName"))...)
	}
	return append(errs, validateTemplate(spec, faulty, path)...)
}

// withClaims is the template with the volumes that its pods get for the claims, before its own.
func withClaims(spec *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	t := spec.Template.DeepCopy()
	var volumes []corev1.Volume
	named := map[string]bool{}
	for _, c := range spec.VolumeClaimTemplates {
		if named[c.Name] {
			continue
		}
		named[c.Name] = true
		volumes = append(volumes, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name},
		}})
	}
	for _, v := range t.Spec.Volumes {
		if !named[v.Name] {
			volumes = append(volumes, v)
		}
	}
	t.Spec.Volumes = volumes
	t.Spec.Hostname, t.Spec.Subdomain = "", "" // which pods get from their names and the set's service
	return t
}

func validateTemplate(spec *appsv1.StatefulSetSpec, faulty bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("selector")
	if spec.Selector == nil {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector, metavalidation.LabelSelectorValidationOptions{}, at)...)
		if len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(at, spec.Selector, "empty selector is invalid for statefulset"))
		}
	}
	template := path.Child("template")
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		return append(append(errs, field.Invalid(at, spec.Selector, "")), workload.Runs(&spec.Template, "StatefulSet", template)...)
	}
	if !selector.Empty() && !selector.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(template.Child("metadata", "labels"), spec.Template.Labels, workload.Mismatch))
	}
	if !faulty {
		errs = append(errs, podspec.ValidateTemplate(withClaims(spec), template)...)
	}
	errs = append(errs, metavalidation.ValidateLabels(spec.Template.Labels, template.Child("labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(spec.Template.Annotations, template.Child("annotations"))...)
	errs = append(errs, podspec.ValidateAnnotations(&spec.Template.ObjectMeta, &spec.Template.Spec, template.Child("annotations"))...)
	return append(errs, workload.Runs(&spec.Template, "StatefulSet", template)...)
}

func validateStrategy(s *appsv1.StatefulSetUpdateStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case "":
		return field.ErrorList{field.Required(path, "")}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Invalid(path.Child("rollingUpdate"), s.RollingUpdate,
				"only allowed for updateStrategy 'RollingUpdate'")}
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		r, at := s.RollingUpdate, path.Child("rollingUpdate")
		if r == nil {
			return nil
		}
		errs := check.NonNegative(row.Deref(r.Partition), at.Child("partition"))
		if r.MaxUnavailable != nil {
			errs = append(errs, workload.Portion(r.MaxUnavailable, at.Child("maxUnavailable"))...)
			if workload.Amount(r.MaxUnavailable) == 0 {
				errs = append(errs, field.Invalid(at.Child("maxUnavailable"), *r.MaxUnavailable, "cannot be 0"))
			}
		}
		return errs
	default:
		return field.ErrorList{field.Invalid(path, *s, "must be 'RollingUpdate' or 'OnDelete'")}
	}
	return nil
}

func validateRetention(p *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	const retain, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	return append(check.Listed(p.WhenDeleted, path.Child("whenDeleted"), retain, remove),
		check.Listed(p.WhenScaled, path.Child("whenScaled"), retain, remove)...)
}

func validateUpdate(s, old *appsv1.StatefulSet) field.ErrorList {
	errs, was := validate(s, false, len(validate(old, false, false)) > 0), s.Spec
	was.PodManagementPolicy, was.Selector, was.ServiceName = old.Spec.PodManagementPolicy, old.Spec.Selector, old.Spec.ServiceName
	was.VolumeClaimTemplates = old.Spec.VolumeClaimTemplates
	if equality.Semantic.DeepEqual(was, s.Spec) {
		return errs
	}
	return append(errs, field.Forbidden(field.NewPath("spec"), "updates to statefulset spec for fields other than 'replicas', 'ordinals', "+
		"'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"))
}

func validateStatus(s, old *appsv1.StatefulSet) field.ErrorList {
	t, path := &s.Status, field.NewPath("status")
	ready := workload.Count{Name: "readyReplicas", N: t.ReadyReplicas}
	current := workload.Count{Name: "currentReplicas", N: t.CurrentReplicas}
	updated := workload.Count{Name: "updatedReplicas", N: t.UpdatedReplicas}
	available := workload.Count{Name: "availableReplicas", N: t.AvailableReplicas}
	errs := workload.Counts(path, workload.Count{Name: "replicas", N: t.Replicas}, ready, current, updated, available,
		workload.Count{Name: "collisionCount", N: row.Deref(t.CollisionCount)})
	errs = append(errs, check.NonNegative(t.ObservedGeneration, path.Child("observedGeneration"))...)
	errs = append(errs, workload.AtMost(path, t.Replicas, "status.replicas", ready, current, updated, available)...)
	errs = append(errs, workload.AtMost(path, t.ReadyReplicas, "status.readyReplicas", available)...)
	return append(errs, workload.Collisions(t.CollisionCount, old.Status.CollisionCount, path)...)
}
