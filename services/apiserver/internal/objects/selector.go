package objects

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// selectors parses the two selectors of a request. What they say of metadata.name and metadata.namespace by equality is
// moved into the query, where it is an index. ok is false where they select nothing at all.
func selectors(res *registry.Resource, namespace, labelText, fieldText string) (q cache.Query, scope cache.Scope, ok bool, err error) {
	q.Namespace = namespace
	if labelText != "" {
		if q.Label, err = labels.Parse(labelText); err != nil {
			return q, scope, false, apierrors.NewBadRequest(err.Error())
		}
		if q.Label.Empty() {
			q.Label = nil
		}
	}
	if fieldText == "" {
		scope.Namespace = namespace
		return q, scope, true, nil
	}
	field, err := fields.ParseSelector(fieldText)
	if err != nil {
		return q, scope, false, apierrors.NewBadRequest(err.Error())
	}
	ok = true
	known := selectable(res)
	var rest []fields.Selector
	for _, r := range field.Requirements() {
		if !known[r.Field] {
			return q, scope, false, apierrors.NewBadRequest(unknownField(res, r.Field))
		}
		// No object has an empty name or namespace, which in a query mean any.
		equal := r.Operator == selection.Equals || r.Operator == selection.DoubleEquals
		switch {
		case equal && r.Field == "metadata.name":
			ok = ok && r.Value != "" && (q.Name == "" || q.Name == r.Value)
			q.Name = r.Value
		case equal && r.Field == "metadata.namespace" && res.Kind.Namespaced:
			ok = ok && r.Value != "" && (q.Namespace == "" || q.Namespace == r.Value)
			q.Namespace = r.Value
		case equal:
			if scope.Field == "" && !remote(res.Kind) {
				scope.Field, scope.Value = r.Field, r.Value
			}
			rest = append(rest, fields.OneTermEqualSelector(r.Field, r.Value))
		default:
			rest = append(rest, fields.OneTermNotEqualSelector(r.Field, r.Value))
		}
	}
	if len(rest) > 0 {
		q.Field = fields.AndSelectors(rest...)
	}
	scope.Namespace, scope.Name = q.Namespace, q.Name
	return q, scope, ok, nil
}

// invalidOptions is the refusal of a list or watch whose options do not go together. Selectors are read before: one that does not parse is
// told instead.
func invalidOptions(labelText, fieldText string, errs field.ErrorList) error {
	if _, err := labels.Parse(labelText); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if _, err := fields.ParseSelector(fieldText); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
}

// remote reports whether objects have to be converted by a webhook, at least some of them, to be seen as the kind.
func remote(kind *registry.Kind) bool { return kind.Custom != nil && kind.Custom.Remote() }

// converted takes the selection by fields out of a query whose objects have to be converted first, which cannot be done where
// they are selected, and returns it as a filter of the converted objects.
func converted(kind *registry.Kind, q cache.Query) (cache.Query, func([]*codec.Item) []*codec.Item) {
	if q.Field == nil || !remote(kind) {
		return q, func(items []*codec.Item) []*codec.Item { return items }
	}
	field := q.Field
	q.Field = nil
	return q, func(items []*codec.Item) []*codec.Item {
		var kept []*codec.Item
		for _, i := range items {
			if i.Matches(nil, field) {
				kept = append(kept, i)
			}
		}
		return kept
	}
}

func selectable(res *registry.Resource) map[string]bool {
	kind, names := res.Kind, res.Kind.Selectable
	if res.Version != nil {
		names = res.Version.Selectable
	}
	known := map[string]bool{"metadata.name": true}
	if kind.Namespaced || kind.SelectableFields == nil { // what has no fields of its own has this one, even if it is in no namespace
		known["metadata.namespace"] = true
	}
	for _, name := range names {
		known[name] = true
	}
	if kind.SelectableFields != nil && names == nil {
		for field := range kind.SelectableFields(kind.New()) {
			known[field] = true
		}
	}
	return known
}

func unknownField(res *registry.Resource, field string) string {
	kind := res.Kind
	if kind.SelectableFields == nil {
		return fmt.Sprintf("%q is not a known field selector: only %q, %q", field, "metadata.name", "metadata.namespace")
	}
	if kind.GVK.Kind == "Job" {
		return fmt.Sprintf("field label %q not supported for Job", field)
	}
	if kind.GVK.Kind == "ResourceSlice" {
		return fmt.Sprintf("field label not supported for %s: %s", res.GVK, field)
	}
	return "field label not supported: " + field
}
