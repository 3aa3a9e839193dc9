package objects

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// maxDisrupted is how many evictions a budget remembers that its controller has not seen the end of.
const maxDisrupted = 2000

// disrupt counts an eviction against the pod's disruption budget. It returns the budget's write, which is committed with the pod's:
// neither happens without the other. There is none where no budget minds.
func (d *deletion) disrupt(ctx context.Context, pod *corev1.Pod) ([]store.Write, error) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil {
		return nil, nil // it serves nobody
	}
	// What the budget allows changes by the moment, and it may just have been made: only the newest state counts.
	if err := d.s.Cache.Fresh(ctx); err != nil {
		return nil, storeError(err, d.r.res.GroupResource(), d.r.name, d.r.verb)
	}
	items, err := d.budgets(pod)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	if len(items) > 1 {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}}
	}
	obj, err := items[0].Object()
	if err != nil {
		return nil, err
	}
	budget, ok := obj.DeepCopyObject().(*policyv1.PodDisruptionBudget)
	if !ok {
		return nil, fmt.Errorf("disruption budget %s is a %T", items[0].Key, obj)
	}
	counted, err := spend(budget, pod, metav1.Time{Time: d.s.now()})
	if err != nil || !counted {
		return nil, err
	}
	value, err := d.s.encode(ctx, items[0].Kind, budget)
	if err != nil {
		return nil, err
	}
	return []store.Write{{Op: store.Update, Key: items[0].Key, Value: value, Revision: items[0].Revision}}, nil
}

// budgets returns the disruption budgets that select the pod.
func (d *deletion) budgets(pod *corev1.Pod) ([]*codec.Item, error) {
	res := d.s.Table.Known(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"))
	if res == nil || len(pod.Labels) == 0 {
		return nil, nil
	}
	var found []*codec.Item
	for _, item := range d.s.Cache.For(res.Kind).List(cache.Query{Namespace: pod.Namespace}).Items {
		obj, err := item.Object()
		if err != nil {
			return nil, err
		}
		budget, ok := obj.(*policyv1.PodDisruptionBudget)
		if !ok {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, item)
		}
	}
	return found, nil
}

// spend takes a disruption off the budget and reports whether it did: a pod that is not ready may go without, as its budget says, and so may
// one whose eviction was charged before, and came to no end. It fails where there is none left.
func spend(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod, now metav1.Time) (bool, error) {
	status := &budget.Status
	if _, charged := status.DisruptedPods[pod.Name]; charged && announced(pod) {
		return false, nil
	}
	if !ready(pod) {
		if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
			return false, nil
		}
		if status.CurrentHealthy >= status.DesiredHealthy && status.DesiredHealthy > 0 {
			return false, nil
		}
	}
	gr := policyv1.Resource("poddisruptionbudget")
	switch {
	case status.ObservedGeneration < budget.Generation:
		return false, violates(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget.Name))
	case status.DisruptionsAllowed < 0:
		return false, apierrors.NewForbidden(gr, budget.Name, errors.New("pdb disruptions allowed is negative"))
	case len(status.DisruptedPods) > maxDisrupted:
		return false, apierrors.NewForbidden(gr, budget.Name, errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case status.DisruptionsAllowed == 0:
		text := fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", budget.Name, status.DesiredHealthy, status.CurrentHealthy)
		if c := meta.FindStatusCondition(status.Conditions, policyv1.DisruptionAllowedCondition); c != nil && c.Reason == policyv1.SyncFailedReason {
			text = fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %v", budget.Name, c.Message)
		}
		return false, violates(0, text)
	}
	if status.DisruptionsAllowed--; status.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Reason: policyv1.InsufficientPodsReason, Status: metav1.ConditionFalse, ObservedGeneration: status.ObservedGeneration,
			LastTransitionTime: now,
		})
	}
	if status.DisruptedPods == nil {
		status.DisruptedPods = map[string]metav1.Time{}
	}
	status.DisruptedPods[pod.Name] = now
	return true, nil
}

// violates is the 429 of an eviction that a budget refuses.
func violates(retryAfter int, cause string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
	return err
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// evict notes on obj, a copy of the pod old, why it goes, and returns the write that charges its disruption budget. The budget is asked first; what
// is left is the deletion.
func (d *deletion) evict(ctx context.Context, item *codec.Item, old, obj registry.Object) ([]store.Write, error) {
	pod, ok := old.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	budget, err := d.disrupt(ctx, pod)
	if err != nil {
		return nil, err
	}
	options := func() error {
		if errs := metav1validation.ValidateDeleteOptions(d.options); len(errs) > 0 {
			return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
		}
		return nil
	}
	checks := []func() error{func() error { return d.preconditions(ctx, item, old) }, options}
	if d.dryRun { // it does not begin with the announcement, which looks at the preconditions only
		slices.Reverse(checks)
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return nil, err
		}
	}
	if pod.DeletionTimestamp == nil {
		evicted(obj.(*corev1.Pod), metav1.Time{Time: d.s.now()})
	}
	return budget, nil
}

// announcement is what an eviction writes before it deletes the pod: why the pod goes, and the charge of its budget. An eviction that ends between
// the two can be repeated, and is not charged again.
type announcement struct{ *deletion }

func (a *announcement) plan(ctx context.Context) (*plan, error) {
	item, err := find(ctx, a.s.Cache, a.r.res.Kind, a.r.res.GroupResource(), a.r.namespace, a.r.name)
	if err != nil {
		return nil, err
	}
	old, err := item.Object()
	if err != nil {
		return nil, err
	}
	obj := old.DeepCopyObject().(registry.Object)
	budget, err := a.evict(ctx, item, old, obj)
	if err != nil {
		return nil, err
	}
	p := &plan{obj: obj, current: item, createRevision: item.CreateRevision}
	if p.value, err = a.s.encode(ctx, a.r.res.Kind, obj); err != nil {
		return nil, err
	}
	if !item.Holds(p.value) {
		p.writes = append([]store.Write{{Op: store.Update, Key: item.Key, Value: p.value, Revision: item.Revision}}, budget...)
	}
	return p, nil
}

// answer lets the deletion follow: of the revision that the announcement has, where the eviction named one.
func (a *announcement) answer(item *codec.Item, p *plan) (answer, error) {
	a.announced, a.told = true, len(p.writes) > 0
	if want := a.options.Preconditions; a.told && want != nil && want.ResourceVersion != nil {
		a.options = a.options.DeepCopy()
		a.options.Preconditions.ResourceVersion = new(strconv.FormatInt(item.Revision, 10))
	}
	return answer{}, nil
}

// announced reports whether a pod says already that it is being evicted.
func announced(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == evictionReason
	})
}

// evictionReason is why a pod goes that is evicted.
const evictionReason = "EvictionByEvictionAPI"

// evicted notes on a pod why it goes.
func evicted(pod *corev1.Pod, now metav1.Time) {
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: evictionReason, Message: "Eviction API: evicting",
		LastTransitionTime: now, ObservedGeneration: pod.Status.ObservedGeneration,
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.DisruptionTarget {
			if c.Status == condition.Status {
				condition.LastTransitionTime = c.LastTransitionTime
			}
			*c = condition
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}
