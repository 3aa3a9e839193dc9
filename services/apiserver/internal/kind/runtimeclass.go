package kind

import (
	"time"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/podspec"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func runtimeClass(now func() time.Time) *registry.Kind {
	k := row.Of[nodev1.RuntimeClass, nodev1.RuntimeClassList](nodev1.SchemeGroupVersion, "runtimeclasses")
	k.Validate = typed.Check(func(c *nodev1.RuntimeClass) field.ErrorList {
		errs := check.Label(c.Handler, field.NewPath("handler"))
		if c.Overhead != nil {
			errs = append(errs, podspec.NodeResources(c.Overhead.PodFixed, field.NewPath("overhead", "podFixed"))...)
		}
		if s := c.Scheduling; s != nil {
			path := field.NewPath("scheduling")
			errs = append(errs, metavalidation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
			errs = append(errs, podspec.Tolerations(s.Tolerations, path.Child("tolerations"))...)
		}
		return errs
	})
	k.ValidateUpdate = typed.CheckChange(func(c, old *nodev1.RuntimeClass) field.ErrorList {
		return check.Same(c.Handler, old.Handler, field.NewPath("handler"))
	})
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("Handler", nodev1.RuntimeClass{}.SwaggerDoc()["handler"]), column.Age(),
	}
	k.Cells = typed.Get(func(c *nodev1.RuntimeClass) []any {
		return []any{c.Name, c.Handler, column.Since(now(), c.CreationTimestamp.Time)}
	})
	return k
}
