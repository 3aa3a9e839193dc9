package statefulset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/owner"
	"howdah.dev/services/controllers/internal/podcontrol"
)

// apply carries a plan out, part after part, until one of them fails: pods come after their claims, and go after their claims know
// whether to go too.
func (c *statefulSets) apply(ctx context.Context, set *appsv1.StatefulSet, plan Plan) error {
	if err := c.remove(ctx, set, plan.End); err != nil {
		return err
	}
	lacking, problem := c.createClaims(ctx, set, plan.Claims)
	for _, name := range plan.Contested { // the spelling is Kubernetes'
		c.events.Eventf(set, corev1.EventTypeWarning, "ConflictingController", "PersistentVolumeClaim %s has a conflicting OwnerReference "+
			"that acts as a manging controller, the retention policy is ignored for this claim", name)
	}
	problem = errors.Join(problem, c.own(ctx, set, plan.Own), c.blocked(set, plan.Blocked))
	if err := c.create(ctx, set, plan.Create, lacking); err != nil || problem != nil {
		return errors.Join(problem, err)
	}
	for _, p := range plan.Repair {
		ordinal, _ := ordinalOf(set, p.Name)
		patch, err := repairPatch(set, p, ordinal)
		if err != nil {
			return err
		}
		if err := c.control.Repair(ctx, set, p, patch); err != nil {
			return fmt.Errorf("repair pod %s: %w", p.Name, err)
		}
	}
	return c.remove(ctx, set, plan.Delete)
}

func (c *statefulSets) remove(ctx context.Context, set *appsv1.StatefulSet, pods []*corev1.Pod) error {
	if len(pods) == 0 {
		return nil
	}
	return c.control.Delete(ctx, set, pods)
}

// create makes the pods that do not lack a claim, few at first: a template that admission refuses must not flood the API.
func (c *statefulSets) create(ctx context.Context, set *appsv1.StatefulSet, pods []*corev1.Pod, lacking map[string]bool) error {
	names, byName := make([]string, 0, len(pods)), make(map[string]*corev1.Pod, len(pods))
	for _, p := range pods {
		if !lacking[p.Name] {
			names, byName[p.Name] = append(names, p.Name), p
		}
	}
	if len(names) == 0 {
		return nil
	}
	return c.control.Create(ctx, set, names, func(name string) *corev1.Pod { return byName[name] }, true)
}

// blocked tells of pods that wait for claims which are being deleted. The claims' end asks for the set again.
func (c *statefulSets) blocked(set *appsv1.StatefulSet, claims []Claim) error {
	var problems []error
	for _, b := range claims {
		err := fmt.Errorf("pvc %s is being deleted", b.Name)
		c.events.Event(set, corev1.EventTypeWarning, "FailedCreate", word(set, podcontrol.Create, b.Pod, err))
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// createClaims makes missing claims, one and then twice as many each time until one fails. It returns the names of the pods that lack one now.
func (c *statefulSets) createClaims(ctx context.Context, set *appsv1.StatefulSet, claims []Claim) (lacking map[string]bool, err error) {
	lacking = map[string]bool{}
	for size := 1; len(claims) > 0 && err == nil; size = min(2*size, object.MaxBatch) {
		part := claims[:min(size, len(claims))]
		claims = claims[len(part):]
		err = c.createSome(ctx, set, part, lacking)
	}
	for _, claim := range claims {
		lacking[claim.Pod] = true
	}
	return lacking, err
}

// createSome makes claims in one call, and adds the pods whose claim could not be made to lacking.
func (c *statefulSets) createSome(ctx context.Context, set *appsv1.StatefulSet, claims []Claim, lacking map[string]bool) error {
	items := make([]object.Item, 0, len(claims))
	for _, claim := range claims {
		items = append(items, object.For(c.client, object.PersistentVolumeClaim).CreateItem(claim.PersistentVolumeClaim))
	}
	results, err := c.client.Batch(ctx, items, false)
	if err != nil {
		for _, claim := range claims {
			lacking[claim.Pod] = true
		}
		return fmt.Errorf("create claims: %w", err)
	}
	var problems []error
	for i, r := range results {
		claim := claims[i]
		if r.Err == nil {
			c.events.Eventf(set, corev1.EventTypeNormal, "SuccessfulCreate", "Create Claim %s Pod %s in StatefulSet %s success", claim.Name, claim.Pod, set.Name)
			continue
		}
		lacking[claim.Pod] = true
		if problem := c.notClaimed(set, claim, r.Err); problem != nil {
			problems = append(problems, problem)
		}
	}
	return errors.Join(problems...)
}

// notClaimed tells why a pod lacks its claim. One that exists may be on its way out: the cache shows it soon, and another try finds it there.
func (c *statefulSets) notClaimed(set *appsv1.StatefulSet, claim Claim, err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // everything here is about to go
	}
	problem := fmt.Errorf("failed to create PVC %s: %w", claim.Name, err)
	if !apierrors.IsAlreadyExists(err) {
		c.events.Eventf(set, corev1.EventTypeWarning, "FailedCreate", "Create Claim %s for Pod %s in StatefulSet %s failed error: %s", claim.Name, claim.Pod, set.Name, err)
		c.events.Event(set, corev1.EventTypeWarning, "FailedCreate", word(set, podcontrol.Create, claim.Pod, problem))
	}
	return problem
}

// own gives claims their owners. The set becomes one only if it is there: with an owner that is gone already the claim would go, too.
func (c *statefulSets) own(ctx context.Context, set *appsv1.StatefulSet, claims []Ownership) error {
	if slices.ContainsFunc(claims, func(o Ownership) bool { return belongs(o.Owners, set, true) }) {
		if err := owner.MayAdopt(ctx, set, c.live(set)); err != nil {
			return fmt.Errorf("update owners of claims: %w", err)
		}
	}
	claimed := object.For(c.client, object.PersistentVolumeClaim)
	items := make([]object.Item, 0, len(claims))
	for _, o := range claims {
		patch, err := owner.RefsPatch(o.Claim, o.Owners)
		if err != nil {
			return err
		}
		items = append(items, claimed.PatchItem(o.Claim.Namespace, o.Claim.Name, "application/merge-patch+json", patch, ""))
	}
	if len(items) == 0 {
		return nil
	}
	results, err := c.client.Batch(ctx, items, false)
	if err != nil {
		return fmt.Errorf("update owners of claims: %w", err)
	}
	var problems []error
	for i, r := range results {
		if r.Err != nil && !apierrors.IsNotFound(r.Err) {
			problems = append(problems, fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", claims[i].Claim.Name, r.Err))
		}
	}
	return errors.Join(problems...)
}

// word is what Events say of the set's pods.
func word(set podcontrol.Owner, verb podcontrol.Verb, pod string, err error) string {
	if err != nil {
		return fmt.Sprintf("%s Pod %s in StatefulSet %s failed error: %s", verb, pod, set.GetName(), err)
	}
	return fmt.Sprintf("%s Pod %s in StatefulSet %s successful", verb, pod, set.GetName())
}
