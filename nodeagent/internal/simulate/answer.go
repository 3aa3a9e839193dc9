package simulate

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/nodestatus"
	"howdah.dev/nodeagent/internal/pressure"
)

// answer tells again that nodes are ready of which the API has something else: of nodes that were not heard of for a while a controller says that nothing is
// known, and nobody but they take that back.
func (f *Fleet) answer(ctx context.Context, part []int) error {
	all := object.For(f.cfg.Client, object.Node)
	var items []object.Item
	for _, i := range part {
		if known, ok := f.cfg.Known.Get("", f.name(i)); !ok || nodestatus.Ready(known) {
			continue
		}
		node, err := all.Get(ctx, "", f.name(i))
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		node = node.DeepCopy()
		node.Status.Conditions = f.conditions(node.Status.Conditions)
		items = append(items, all.UpdateItem(node, "status"))
	}
	if len(items) == 0 {
		return nil
	}
	results, err := f.cfg.Client.Batch(ctx, items, false)
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Err != nil && !apierrors.IsConflict(r.Err) && !apierrors.IsNotFound(r.Err) { // the next round sees what it is then
			return r.Err
		}
	}
	return nil
}

// conditions lays those of a node that wants for nothing over those that it has.
func (f *Fleet) conditions(old []corev1.NodeCondition) []corev1.NodeCondition {
	return nodestatus.Conditions(old, pressure.Conditions{}, nil, f.cfg.Clock.Now())
}
