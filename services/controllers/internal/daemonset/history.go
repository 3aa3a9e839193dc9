package daemonset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/pod"
	"howdah.dev/services/controllers/internal/revision"
)

// past is what a set's history says after it has been brought up to date.
type past struct {
	hash       string // of the set's template
	collisions int32
	old        []*appsv1.ControllerRevision // of other templates
	// moving says that pods are being given another hash, which the cache has yet to show.
	moving bool
}

// record finds or makes the revision of the set's template. Of several the newest stays, once the pods of the others are its own.
func (c *daemonSets) record(ctx context.Context, ds *appsv1.DaemonSet, selector labels.Selector, pods []*corev1.Pod) (past, error) {
	o := ownerOf(ds)
	revisions, err := c.history.Of(ctx, o, selector, c.live(ds))
	if err != nil {
		return past{}, err
	}
	if err := c.labelRevisions(ctx, revisions); err != nil {
		return past{}, err
	}
	data, err := revision.Data(o.Template)
	if err != nil {
		return past{}, err
	}
	found := revision.Find(revisions, o.Template, data)
	current, collisions, err := c.history.Record(ctx, o, revisions)
	if err != nil {
		return past{}, err
	}
	r := past{hash: current.Labels[hashLabel], collisions: collisions, old: found.Others}
	if len(found.Duplicates) == 0 {
		return r, nil
	}
	if r.moving, err = c.relabel(ctx, withHashesOf(pods, found.Duplicates), r.hash); err != nil || r.moving {
		return r, err
	}
	return r, c.history.Delete(ctx, found.Duplicates)
}

// ownerOf returns the set as what its revisions belong to. They have the hash of its template: a StatefulSet's have that of their data.
func ownerOf(ds *appsv1.DaemonSet) revision.Owner {
	return revision.Owner{
		Object: ds, Kind: kind, Template: &ds.Spec.Template, HashLabel: hashLabel,
		Hash: func(_ []byte, collisions int32) string {
			var told *int32 // none is not 0
			if collisions > 0 {
				told = &collisions
			}
			return pod.TemplateHash(&ds.Spec.Template, told)
		},
		Collisions: ptr.Deref(ds.Status.CollisionCount, 0),
	}
}

// labelRevisions gives revisions without a hash, as adopted ones may be, their names in its place.
func (c *daemonSets) labelRevisions(ctx context.Context, revisions []*appsv1.ControllerRevision) error {
	for i, r := range revisions {
		if r.Labels[hashLabel] != "" {
			continue
		}
		patch, err := hashPatch(r, r.Name)
		if err != nil {
			return err
		}
		labelled, err := object.For(c.client, object.ControllerRevision).Patch(ctx, r.Namespace, r.Name, types.MergePatchType, patch, "")
		if err != nil {
			return fmt.Errorf("label revision %s: %w", r.Name, err)
		}
		revisions[i] = labelled
	}
	return nil
}

// withHashesOf returns the pods that are of one of the revisions.
func withHashesOf(pods []*corev1.Pod, revisions []*appsv1.ControllerRevision) []*corev1.Pod {
	hashes := map[string]bool{}
	for _, r := range revisions {
		hashes[r.Labels[hashLabel]] = true
	}
	var of []*corev1.Pod
	for _, p := range pods {
		if hashes[p.Labels[hashLabel]] {
			of = append(of, p)
		}
	}
	return of
}

// relabel gives the pods another hash, and says whether there were any.
func (c *daemonSets) relabel(ctx context.Context, pods []*corev1.Pod, hash string) (bool, error) {
	items := make([]object.Item, 0, len(pods))
	for _, p := range pods {
		if p.Labels[hashLabel] == hash {
			continue
		}
		patch, err := hashPatch(p, hash)
		if err != nil {
			return false, err
		}
		items = append(items, object.For(c.client, object.Pod).PatchItem(p.Namespace, p.Name, types.MergePatchType, patch, ""))
	}
	if len(items) == 0 {
		return false, nil
	}
	results, err := c.client.Batch(ctx, items, false)
	if err != nil {
		return false, fmt.Errorf("label pods: %w", err)
	}
	var problems []error
	for _, r := range results {
		if r.Err != nil && !apierrors.IsNotFound(r.Err) {
			problems = append(problems, r.Err)
		}
	}
	return true, errors.Join(problems...)
}

// hashPatch is the merge patch that sets the hash of the very object.
func hashPatch(o metav1.Object, hash string) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.GetUID(), "labels": map[string]string{hashLabel: hash},
	}})
	if err != nil {
		return nil, fmt.Errorf("encode label of %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return patch, nil
}

// expired returns the oldest of the revisions of former templates beyond the set's limit. Those that pods are of count, too, but stay.
func expired(ds *appsv1.DaemonSet, old []*appsv1.ControllerRevision, pods []*corev1.Pod) []*appsv1.ControllerRevision {
	live := map[string]bool{}
	for _, p := range pods {
		live[p.Labels[hashLabel]] = true
	}
	unused := revision.Expired(old, 0, func(r *appsv1.ControllerRevision) bool { return live[r.Labels[hashLabel]] })
	excess := len(old) - int(ptr.Deref(ds.Spec.RevisionHistoryLimit, 10))
	return unused[:max(0, min(excess, len(unused)))]
}
