package deployment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/controllers/internal/pod"
)

// Annotations that Kubernetes documents.
const (
	revisionAnnotation = "deployment.kubernetes.io/revision"
	historyAnnotation  = "deployment.kubernetes.io/revision-history"
	desiredAnnotation  = "deployment.kubernetes.io/desired-replicas"
	maxAnnotation      = "deployment.kubernetes.io/max-replicas"
	rollbackAnnotation = "deprecated.deployment.rollback.to"
)

// maxHistory bounds the revision-history annotation, in bytes.
const maxHistory = 2000

// kind is what a ReplicaSet's controller reference says.
var kind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// sameTemplate compares templates without the hash label.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	return apiequality.Semantic.DeepEqual(withoutHash(a), withoutHash(b))
}

func withoutHash(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	if _, ok := t.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; !ok {
		return t
	}
	c := *t
	c.Labels = make(map[string]string, len(t.Labels))
	for k, v := range t.Labels {
		if k != appsv1.DefaultDeploymentUniqueLabelKey {
			c.Labels[k] = v
		}
	}
	return &c
}

func templateHash(t *corev1.PodTemplateSpec, collisions *int32) string {
	return pod.TemplateHash(withoutHash(t), collisions)
}

// revision returns the number that a set's or Deployment's annotation holds; 0 is none.
func revision(o metav1.Object) int64 {
	n, err := strconv.ParseInt(o.GetAnnotations()[revisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// stampRevision gives the new set the highest revision, its Deployment's
// annotations and minReadySeconds. Where there is none and create says so,
// it plans one.
func (r *rollout) stampRevision(create bool) {
	var highest int64
	for _, s := range r.old {
		highest = max(highest, revision(s.rs))
	}
	next := strconv.FormatInt(highest+1, 10)
	switch {
	case r.new != nil:
		r.copyAnnotations(r.new)
		if had := revision(r.new.rs); had < highest+1 {
			if had > 0 {
				r.keepHistory(r.new, had)
			}
			r.new.annotate(revisionAnnotation, next)
		}
		if r.new.rs.Spec.MinReadySeconds != r.d.Spec.MinReadySeconds {
			r.new.edit().Spec.MinReadySeconds = r.d.Spec.MinReadySeconds
		}
		if hasDeadline(r.d) && r.condition(appsv1.DeploymentProgressing) == nil {
			r.setProgressing(corev1.ConditionTrue, reasonFound, fmt.Sprintf("Found new replica set %q", r.new.rs.Name))
		}
	case create:
		r.create(next)
	default:
		return
	}
	if v := r.new.rs.Annotations[revisionAnnotation]; r.d.Annotations[revisionAnnotation] != v {
		r.revision = v
	}
}

// create plans a set of the Deployment's template.
func (r *rollout) create(revision string) {
	hash := templateHash(&r.d.Spec.Template, r.d.Status.CollisionCount)
	template := *r.d.Spec.Template.DeepCopy()
	template.Labels = with(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	selector := r.d.Spec.Selector.DeepCopy()
	selector.MatchLabels = with(selector.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	size := r.newSize()
	r.new = &set{created: true, rs: &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       r.d.Namespace,
			Name:            name(r.d.Name, hash),
			Labels:          template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r.d, kind)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        &size,
			MinReadySeconds: r.d.Spec.MinReadySeconds,
			Selector:        selector,
			Template:        template,
		},
	}}
	r.copyAnnotations(r.new)
	r.new.annotate(revisionAnnotation, revision)
	r.stampSize(r.new)
	if size > 0 {
		r.events = append(r.events, Event{corev1.EventTypeNormal, "ScalingReplicaSet",
			fmt.Sprintf("Scaled up replica set %s from 0 to %d", r.new.rs.Name, size)})
	}
	if hasDeadline(r.d) {
		r.setProgressing(corev1.ConditionTrue, reasonCreated, fmt.Sprintf("Created new replica set %q", r.new.rs.Name))
	}
}

// name joins a Deployment's name and a hash, within the 253 bytes that a
// ReplicaSet's name may have.
func name(deployment, hash string) string {
	return deployment[:min(len(deployment), 253-1-len(hash))] + "-" + hash
}

func with(labels map[string]string, key, value string) map[string]string {
	all := make(map[string]string, len(labels)+1)
	for k, v := range labels {
		all[k] = v
	}
	all[key] = value
	return all
}

// copyAnnotations gives a set the annotations that describe the Deployment.
func (r *rollout) copyAnnotations(s *set) {
	for k, v := range r.d.Annotations {
		switch k {
		case revisionAnnotation, historyAnnotation, desiredAnnotation, maxAnnotation, rollbackAnnotation, corev1.LastAppliedConfigAnnotation:
		default:
			s.annotate(k, v)
		}
	}
}

// keepHistory appends a revision that the set once had; the oldest go first
// when there are too many.
func (r *rollout) keepHistory(s *set, revision int64) {
	var history []string
	if h := s.rs.Annotations[historyAnnotation]; h != "" {
		history = strings.Split(h, ",")
	}
	text := strconv.FormatInt(revision, 10)
	if slices.Contains(history, text) {
		return
	}
	history = append(history, text)
	for len(strings.Join(history, ",")) > maxHistory {
		history = history[1:]
	}
	s.annotate(historyAnnotation, strings.Join(history, ","))
}

// stampSize records what a set was sized for; a change of it tells a scaled
// Deployment from a rolling one.
func (r *rollout) stampSize(s *set) {
	surge, _ := bounds(r.d)
	s.annotate(desiredAnnotation, strconv.Itoa(int(want(r.d))))
	s.annotate(maxAnnotation, strconv.Itoa(int(want(r.d)+surge)))
}

// cleanUp deletes sets that are empty and beyond the history limit, the
// oldest revisions first.
func (r *rollout) cleanUp() {
	if r.d.Spec.RevisionHistoryLimit == nil {
		return
	}
	var sets []*appsv1.ReplicaSet
	for _, s := range r.old {
		if s.rs.DeletionTimestamp == nil {
			sets = append(sets, s.rs)
		}
	}
	excess := len(sets) - int(*r.d.Spec.RevisionHistoryLimit)
	slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int { return int(revision(a) - revision(b)) })
	for i := 0; i < excess; i++ {
		rs := sets[i]
		empty := rs.Status.Replicas == 0 && rs.Spec.Replicas != nil && *rs.Spec.Replicas == 0
		if empty && rs.Generation <= rs.Status.ObservedGeneration {
			r.delete = append(r.delete, rs)
		}
	}
}
