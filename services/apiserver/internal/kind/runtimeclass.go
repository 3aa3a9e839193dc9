package kind

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func runtimeClass(now func() time.Time) *registry.Kind {
	k := row.Of[nodev1.RuntimeClass, nodev1.RuntimeClassList](nodev1.SchemeGroupVersion, "runtimeclasses")
	k.NeedsRevision, k.CreateOnUpdate = true, true
	k.Validate = typed.Check(func(c *nodev1.RuntimeClass) field.ErrorList {
		var errs field.ErrorList
		if handler := field.NewPath("handler"); c.Handler == "" {
			errs = append(errs, field.Required(handler, ""))
		} else {
			errs = append(errs, check.Label(c.Handler, handler)...)
		}
		if c.Overhead != nil {
			errs = append(errs, podspec.Limits(c.Overhead.PodFixed, field.NewPath("overhead"))...) // what it is about in Kubernetes, too
		}
		if s := c.Scheduling; s != nil {
			path := field.NewPath("scheduling")
			errs = append(errs, metavalidation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
			errs = append(errs, podspec.Tolerations(s.Tolerations, path.Child("tolerations"))...)
			for i := range s.Tolerations {
				same := func(o corev1.Toleration) bool { return equality.Semantic.DeepEqual(o, s.Tolerations[i]) }
				if slices.ContainsFunc(s.Tolerations[:i], same) {
					errs = append(errs, field.Duplicate(path.Child("tolerations").Index(i), s.Tolerations[i]))
				}
			}
		}
		return errs
	})
	k.ValidateUpdate = typed.CheckChange(func(c, old *nodev1.RuntimeClass) field.ErrorList {
		return check.Same(c.Handler, old.Handler, field.NewPath("handler"))
	})
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("Handler", ""), column.Age(),
	}
	k.Cells = typed.Get(func(c *nodev1.RuntimeClass) []any {
		return []any{c.Name, c.Handler, column.Since(now(), c.CreationTimestamp.Time)}
	})
	return k
}
