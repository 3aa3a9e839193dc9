package simulate

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/nodestatus"
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
		node.Status.Conditions = lay(node.Status.Conditions, f.node(i).Status.Conditions)
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

// lay lays conditions over others.
func lay(under, over []corev1.NodeCondition) []corev1.NodeCondition {
	out := slices.Clone(under)
	for _, c := range over {
		at := slices.IndexFunc(out, func(o corev1.NodeCondition) bool { return o.Type == c.Type })
		switch {
		case at < 0:
			out = append(out, c)
		default:
			if out[at].Status == c.Status {
				c.LastTransitionTime = out[at].LastTransitionTime
			}
			out[at] = c
		}
	}
	return out
}
