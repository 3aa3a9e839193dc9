package rbacpolicy

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/itself"
	"howdah.dev/services/apiserver/internal/rbac"
	"howdah.dev/services/apiserver/internal/registry"
)

// API is what reconciling needs of the object service.
type API interface {
	Batch(ctx context.Context, req *apiv1.BatchRequest) (*apiv1.BatchResponse, error)
}

// Objects lists what is known of a kind.
type Objects interface {
	List(ctx context.Context, group, resource, namespace string) []registry.Object
}

// Run makes the policy stand: it writes what is missing, again and again until nothing is, or ctx ends. Several
// apiservers may do so at once. fresh brings what is known up to date; served says which there are.
func Run(ctx context.Context, api API, objects Objects, fresh func(context.Context) error, served Served) error {
	ctx = itself.Context(ctx)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		done, err := once(ctx, api, objects, fresh, served)
		if done || ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			slog.WarnContext(ctx, "write the cluster's own roles", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// once reports whether nothing was to be done.
func once(ctx context.Context, api API, objects Objects, fresh func(context.Context) error, served Served) (bool, error) {
	if err := fresh(ctx); err != nil {
		return false, err
	}
	items, err := plan(ctx, Default(served), objects)
	if err != nil || len(items) == 0 {
		return err == nil, err
	}
	resp, err := api.Batch(ctx, &apiv1.BatchRequest{Items: items})
	if err != nil {
		return false, err
	}
	for _, r := range resp.GetResults() {
		if r.GetCode() >= 400 && r.GetCode() != 409 && r.GetCode() != 404 { // another apiserver was first
			return false, fmt.Errorf("%s", r.GetObject())
		}
	}
	return false, nil
}

// plan returns the writes that bring what is known to the policy. What was added to a role or binding by hand stays; what
// is annotated not to be updated is left alone.
func plan(ctx context.Context, p Policy, objects Objects) ([]*apiv1.BatchItem, error) {
	w := &writes{}
	reconcile(ctx, w, objects, "clusterroles", p.ClusterRoles, func(have, want *rbacv1.ClusterRole) (*rbacv1.ClusterRole, bool) {
		out := have.DeepCopy()
		if want.AggregationRule == nil {
			out.Rules = extend(have.Rules, want.Rules)
			out.AggregationRule = nil
		} else { // the rules are the aggregation controller's
			if out.AggregationRule == nil {
				out.AggregationRule = &rbacv1.AggregationRule{}
			}
			for _, s := range want.AggregationRule.ClusterRoleSelectors {
				if !slices.ContainsFunc(out.AggregationRule.ClusterRoleSelectors, func(h metav1.LabelSelector) bool { return equality.Semantic.DeepEqual(h, s) }) {
					out.AggregationRule.ClusterRoleSelectors = append(out.AggregationRule.ClusterRoleSelectors, s)
				}
			}
		}
		return out, true
	})
	reconcile(ctx, w, objects, "roles", p.Roles, func(have, want *rbacv1.Role) (*rbacv1.Role, bool) {
		out := have.DeepCopy()
		out.Rules = extend(have.Rules, want.Rules)
		return out, true
	})
	reconcile(ctx, w, objects, "clusterrolebindings", p.ClusterRoleBindings, func(have, want *rbacv1.ClusterRoleBinding) (*rbacv1.ClusterRoleBinding, bool) {
		out := have.DeepCopy()
		out.Subjects = join(have.Subjects, want.Subjects)
		return out, have.RoleRef == want.RoleRef
	})
	reconcile(ctx, w, objects, "rolebindings", p.RoleBindings, func(have, want *rbacv1.RoleBinding) (*rbacv1.RoleBinding, bool) {
		out := have.DeepCopy()
		out.Subjects = join(have.Subjects, want.Subjects)
		return out, have.RoleRef == want.RoleRef
	})
	return w.items, w.err
}

// extend adds the rules of want that have does not cover.
func extend(have, want []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return append(slices.Clone(have), rbac.Missing(have, want)...)
}

func join(have, want []rbacv1.Subject) []rbacv1.Subject {
	out := slices.Clone(have)
	for _, s := range want {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

type writes struct {
	items []*apiv1.BatchItem
	err   error
}

// reconcile adds the writes for one kind. merge returns the object with what it lacks, or false where only replacing it helps:
// the reference of a binding cannot be changed.
func reconcile[T registry.Object](ctx context.Context, w *writes, objects Objects, resource string, want []T, merge func(have, want T) (T, bool)) {
	known := map[[2]string]T{}
	for _, obj := range objects.List(ctx, rbacv1.GroupName, resource, "") {
		if t, ok := obj.(T); ok {
			known[[2]string{t.GetNamespace(), t.GetName()}] = t
		}
	}
	for _, obj := range want {
		have, ok := known[[2]string{obj.GetNamespace(), obj.GetName()}]
		if !ok {
			w.items = append(w.items, &apiv1.BatchItem{Write: &apiv1.BatchItem_Create{Create: &apiv1.CreateRequest{
				Group: rbacv1.GroupName, Version: "v1", Resource: resource, Namespace: obj.GetNamespace(), Object: w.encode(obj),
			}}})
			continue
		}
		if have.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false" {
			continue
		}
		merged, ok := merge(have, obj)
		if !ok {
			w.items = append(w.items, &apiv1.BatchItem{Write: &apiv1.BatchItem_Delete{Delete: &apiv1.DeleteRequest{
				Group: rbacv1.GroupName, Version: "v1", Resource: resource, Namespace: obj.GetNamespace(), Name: obj.GetName(),
			}}})
			continue // the next round creates it
		}
		merged.SetLabels(with(have.GetLabels(), obj.GetLabels()))
		merged.SetAnnotations(with(have.GetAnnotations(), obj.GetAnnotations()))
		if !equality.Semantic.DeepEqual(merged, have) {
			w.items = append(w.items, &apiv1.BatchItem{Write: &apiv1.BatchItem_Update{Update: &apiv1.UpdateRequest{
				Group: rbacv1.GroupName, Version: "v1", Resource: resource, Namespace: obj.GetNamespace(), Name: obj.GetName(), Object: w.encode(merged),
			}}})
		}
	}
}

func with(have, want map[string]string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, want)
	return out
}

func (w *writes) encode(obj registry.Object) []byte {
	body, err := json.Marshal(obj)
	if err != nil && w.err == nil {
		w.err = err
	}
	return body
}
