package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/workload"
)

func validate(j *batchv1.Job) field.ErrorList { return append(validateGenerated(j), validateOwn(j)...) }

// validateOwn is all but whether the labels and the selector are the generated ones.
func validateOwn(j *batchv1.Job) field.ErrorList {
	spec, path := &j.Spec, field.NewPath("spec")
	errs := validateSpec(spec, path)
	if spec.Selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	// A selector that is not there matches nothing.
	errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector, metavalidation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !selector.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), spec.Template.Labels, workload.Mismatch))
	}
	return errs
}

// validateHostname refuses a new job whose last pod could not have the host name that it would be given.
func validateHostname(j *batchv1.Job) field.ErrorList {
	n := row.Deref(j.Spec.Completions)
	if mode := j.Spec.CompletionMode; mode == nil || *mode != batchv1.IndexedCompletion || n <= 0 {
		return nil
	}
	last := fmt.Sprintf("%s-%d", j.Name, n-1)
	if len(validation.IsDNS1123Label(last)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), j.Name, "will not able to create pod with invalid DNS label: "+last)}
}

// validateGenerated refuses a job that brings labels or a selector of its own
// where those are generated.
func validateGenerated(j *batchv1.Job) field.ErrorList {
	if row.Deref(j.Spec.ManualSelector) || j.Spec.Selector == nil { // which is told elsewhere
		return nil
	}
	path := field.NewPath("spec")
	var errs field.ErrorList
	want := generated(j)
	for _, key := range []string{oldUIDLabel, oldNameLabel, batchv1.ControllerUidLabel, batchv1.JobNameLabel} {
		at, must := path.Child("template", "metadata", "labels").Key(key), fmt.Sprintf("must be '%s'", want[key])
		if got, set := j.Spec.Template.Labels[key]; !set {
			errs = append(errs, field.Required(at, must))
		} else if got != want[key] {
			errs = append(errs, field.Invalid(at, j.Spec.Template.Labels, must))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector)
	if err == nil && !selector.Matches(labels.Set{batchv1.ControllerUidLabel: string(j.UID)}) {
		errs = append(errs, field.Invalid(path.Child("selector"), j.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

// Indexes are kept in the status: their number is bounded.
const (
	mostIndexed  = 100_000
	mostParallel = 100_000
)

// validateSpec checks all but the selector.
func validateSpec(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, n := range []struct {
		name string
		n    *int32
	}{
		{"parallelism", s.Parallelism}, {"completions", s.Completions}, {"backoffLimit", s.BackoffLimit},
		{"ttlSecondsAfterFinished", s.TTLSecondsAfterFinished}, {"backoffLimitPerIndex", s.BackoffLimitPerIndex},
		{"maxFailedIndexes", s.MaxFailedIndexes},
	} {
		errs = append(errs, check.NonNegative(row.Deref(n.n), path.Child(n.name))...)
	}
	errs = append(errs, check.NonNegative(row.Deref(s.ActiveDeadlineSeconds), path.Child("activeDeadlineSeconds"))...)
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if m := s.ManagedBy; m != nil {
		errs = append(errs, validation.IsDomainPrefixedPath(path.Child("managedBy"), *m)...)
		if len(*m) > 63 {
			errs = append(errs, field.TooLongMaxLength(path.Child("managedBy"), *m, 63))
		}
	}
	errs = append(errs, validateMode(s, path)...)
	errs = append(errs, validateFailurePolicy(s, path.Child("podFailurePolicy"))...)
	errs = append(errs, validateSuccessPolicy(s, path.Child("successPolicy"))...)
	if p := s.PodReplacementPolicy; p != nil {
		allowed := []batchv1.PodReplacementPolicy{batchv1.Failed}
		if s.PodFailurePolicy == nil {
			allowed = append(allowed, batchv1.TerminatingOrFailed)
		}
		errs = append(errs, check.OneOf(*p, path.Child("podReplacementPolicy"), allowed...)...)
	}
	errs = append(errs, podspec.ValidateTemplate(&s.Template, path.Child("template"))...)
	restart := path.Child("template", "spec", "restartPolicy")
	switch policy := s.Template.Spec.RestartPolicy; {
	case policy == "" || policy == corev1.RestartPolicyAlways:
		errs = append(errs, field.Required(restart, fmt.Sprintf("valid values: %q, %q", corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)))
	case policy != corev1.RestartPolicyOnFailure && policy != corev1.RestartPolicyNever:
		errs = append(errs, field.NotSupported(restart, policy, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}))
	case policy != corev1.RestartPolicyNever && s.PodFailurePolicy != nil:
		errs = append(errs, field.Invalid(restart, policy, fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever)))
	}
	return errs
}

func validateMode(s *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	mode := batchv1.NonIndexedCompletion
	if s.CompletionMode != nil {
		mode = *s.CompletionMode
	}
	switch mode {
	case batchv1.IndexedCompletion:
		if s.Completions == nil {
			return field.ErrorList{field.Required(path.Child("completions"), "when completion mode is Indexed")}
		}
		if n := row.Deref(s.Parallelism); n > mostParallel {
			errs = append(errs, field.Invalid(path.Child("parallelism"), n, fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", mostParallel)))
		}
		if n := s.MaxFailedIndexes; n != nil && *n > *s.Completions {
			errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *n, "must be less than or equal to completions"))
		}
		if n := s.MaxFailedIndexes; n != nil && *n > mostIndexed {
			errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *n, fmt.Sprintf("must be less than or equal to %d", mostIndexed)))
		}
		if s.BackoffLimitPerIndex != nil && *s.Completions > mostIndexed && s.MaxFailedIndexes == nil {
			errs = append(errs, field.Required(path.Child("maxFailedIndexes"), fmt.Sprintf("must be specified when completions is above %d", mostIndexed)))
		}
	case batchv1.NonIndexedCompletion:
		if s.BackoffLimitPerIndex != nil {
			errs = append(errs, field.Invalid(path.Child("backoffLimitPerIndex"), *s.BackoffLimitPerIndex, "requires indexed completion mode"))
		}
		if s.MaxFailedIndexes != nil {
			errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *s.MaxFailedIndexes, "requires indexed completion mode"))
		}
	default:
		return check.Listed(mode, path.Child("completionMode"), batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	}
	return errs
}

func validateUpdate(j, old *batchv1.Job) field.ErrorList {
	s, was, path := &j.Spec, &old.Spec, field.NewPath("spec")
	errs := podspec.Tolerated(validateOwn(j), &old.Spec.Template.Spec, &old.Spec.Template.ObjectMeta) // once more: Kubernetes repeats what is wrong with an updated job
	indexed := row.Deref(s.CompletionMode) == batchv1.IndexedCompletion
	if tandem := indexed && s.Completions != nil && was.Completions != nil; tandem {
		if *s.Completions != *was.Completions && *s.Completions != row.Deref(s.Parallelism) {
			errs = append(errs, field.Invalid(path.Child("completions"), s.Completions, "can only be modified in tandem with "+path.Child("parallelism").String()))
		}
	} else {
		errs = append(errs, check.Same(s.Completions, was.Completions, path.Child("completions"))...)
	}
	errs = append(errs, check.Same(s.Selector, was.Selector, path.Child("selector"))...)
	errs = append(errs, validateTemplateUpdate(j, old, path.Child("template"))...)
	errs = append(errs, check.Same(s.CompletionMode, was.CompletionMode, path.Child("completionMode"))...)
	errs = append(errs, check.Same(s.PodFailurePolicy, was.PodFailurePolicy, path.Child("podFailurePolicy"))...)
	errs = append(errs, check.Same(s.BackoffLimitPerIndex, was.BackoffLimitPerIndex, path.Child("backoffLimitPerIndex"))...)
	errs = append(errs, check.Same(s.ManagedBy, was.ManagedBy, path.Child("managedBy"))...)
	return append(errs, check.Same(s.SuccessPolicy, was.SuccessPolicy, path.Child("successPolicy"))...)
}

// validateTemplateUpdate lets a queue place the pods of a job that stands still, and change what they ask for.
func validateTemplateUpdate(j, old *batchv1.Job, path *field.Path) field.ErrorList {
	if !standsStill(old) {
		return check.Same(j.Spec.Template, old.Spec.Template, path)
	}
	spec, was := &j.Spec.Template.Spec, old.Spec.Template.Spec.DeepCopy()
	was.NodeSelector, was.Tolerations, was.SchedulingGates = spec.NodeSelector, spec.Tolerations, spec.SchedulingGates
	was.Affinity = affinityWith(was.Affinity, spec.Affinity)
	takeResources(was.Containers, spec.Containers)
	takeResources(was.InitContainers, spec.InitContainers)
	return check.Same(*spec, *was, path.Child("spec"))
}

// standsStill reports whether a job is suspended, with no pod left of the time before.
func standsStill(j *batchv1.Job) bool {
	suspended := slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	})
	return row.Deref(j.Spec.Suspend) && (j.Status.StartTime == nil || suspended) && j.Status.Active == 0
}

// affinityWith returns an affinity with the new one's nodes.
func affinityWith(old, now *corev1.Affinity) *corev1.Affinity {
	var nodes *corev1.NodeAffinity
	if now != nil {
		nodes = now.NodeAffinity
	}
	switch {
	case old == nil && now == nil:
		return nil
	case old == nil:
		old = &corev1.Affinity{}
	}
	old.NodeAffinity = nodes
	if now == nil && *old == (corev1.Affinity{}) {
		return nil
	}
	return old
}

// takeResources gives containers the resources of those of the same place and name.
func takeResources(containers, now []corev1.Container) {
	if len(containers) != len(now) {
		return
	}
	for i := range containers {
		if containers[i].Name == now[i].Name {
			containers[i].Resources = now[i].Resources
		}
	}
}

func tooMany(path *field.Path, n, most int) field.ErrorList {
	if n > most {
		return field.ErrorList{field.TooMany(path, n, most)}
	}
	return nil
}

func containerNames(s *corev1.PodSpec) map[string]bool {
	names := map[string]bool{}
	for _, c := range s.Containers {
		names[c.Name] = true
	}
	for _, c := range s.InitContainers {
		names[c.Name] = true
	}
	return names
}
