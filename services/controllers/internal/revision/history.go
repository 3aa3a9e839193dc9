package revision

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/owner"
)

// History reads and writes the revisions of owners.
type History struct {
	client    *object.Client
	revisions *object.Informer[*appsv1.ControllerRevision]
}

// NewHistory returns the history that the environment's cache shows.
func NewHistory(env *controller.Env) *History {
	return &History{client: env.Client, revisions: env.Revisions()}
}

// Of returns the owner's revisions. It adopts orphans that the selector selects, where the owner may adopt any, and lets go of
// those that it no longer selects.
func (h *History) Of(ctx context.Context, o Owner, selector labels.Selector, live owner.Live) ([]*appsv1.ControllerRevision, error) {
	claims := owner.Claim(o, selector, append(
		h.revisions.ByIndex(controller.ByController, string(o.GetUID())),
		h.revisions.ByIndex(controller.ByController, controller.OrphansOf(o.GetNamespace()))...))
	if len(claims.Adopt) > 0 {
		if err := owner.MayAdopt(ctx, o, live); err != nil {
			return nil, fmt.Errorf("adopt revisions: %w", err)
		}
	}
	for _, r := range claims.Adopt {
		patch, err := owner.AdoptPatch(o, o.Kind, r)
		if err != nil {
			return nil, err
		}
		adopted, err := h.patch(ctx, r, patch)
		if err != nil {
			return nil, fmt.Errorf("adopt revision %s: %w", r.Name, err)
		}
		claims.Own = append(claims.Own, adopted)
	}
	for _, r := range claims.Release {
		patch, err := owner.ReleasePatch(o.GetUID(), r)
		if err != nil {
			return nil, err
		}
		if _, err := h.patch(ctx, r, patch); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("release revision %s: %w", r.Name, err)
		}
	}
	return claims.Own, nil
}

func (h *History) patch(ctx context.Context, r *appsv1.ControllerRevision, patch []byte) (*appsv1.ControllerRevision, error) {
	return object.For(h.client, object.ControllerRevision).Patch(ctx, r.Namespace, r.Name, types.MergePatchType, patch, "")
}

// Record returns the revision of the owner's template, which is the newest one from now on: it is created, or renumbered, where
// it must be. The collision count is the owner's, higher where names were taken.
func (h *History) Record(ctx context.Context, o Owner, history []*appsv1.ControllerRevision) (*appsv1.ControllerRevision, int32, error) {
	data, err := Data(o.Template)
	if err != nil {
		return nil, o.Collisions, err
	}
	found := Find(history, o.Template, data)
	switch {
	case found.Current == nil:
		return h.create(ctx, o, data, found.Number)
	case found.Current.Revision == found.Number:
		return found.Current, o.Collisions, nil
	}
	newest := found.Current.DeepCopy()
	newest.Revision = found.Number
	newest, err = object.For(h.client, object.ControllerRevision).Update(ctx, newest)
	if err != nil {
		err = fmt.Errorf("renumber revision %s: %w", found.Current.Name, err)
	}
	return newest, o.Collisions, err
}

// create makes the revision. One of that name with the same data is the revision already, as when the cache has not shown it
// yet; with other data, the next name is tried.
func (h *History) create(ctx context.Context, o Owner, data []byte, number int64) (*appsv1.ControllerRevision, int32, error) {
	revisions := object.For(h.client, object.ControllerRevision)
	for ; ; o.Collisions++ {
		r := New(o, data, number)
		made, err := revisions.Create(ctx, r)
		if err == nil {
			return made, o.Collisions, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, o.Collisions, fmt.Errorf("create revision %s: %w", r.Name, err)
		}
		had, err := revisions.Get(ctx, r.Namespace, r.Name)
		if err != nil {
			return nil, o.Collisions, fmt.Errorf("read revision %s, which exists: %w", r.Name, err)
		}
		if bytes.Equal(had.Data.Raw, data) {
			return had, o.Collisions, nil
		}
	}
}

// Delete removes revisions.
func (h *History) Delete(ctx context.Context, revisions []*appsv1.ControllerRevision) error {
	if len(revisions) == 0 {
		return nil
	}
	items := make([]object.Item, 0, len(revisions))
	for _, r := range revisions {
		items = append(items, object.For(h.client, object.ControllerRevision).DeleteItem(r.Namespace, r.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(r.UID))}))
	}
	results, err := h.client.Batch(ctx, items, false)
	if err != nil {
		return fmt.Errorf("delete revisions: %w", err)
	}
	var problems []error
	for _, r := range results {
		if r.Err != nil && !apierrors.IsNotFound(r.Err) && !apierrors.IsConflict(r.Err) {
			problems = append(problems, r.Err)
		}
	}
	return errors.Join(problems...)
}
