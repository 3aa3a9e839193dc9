package kind

import (
	"bytes"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/legacy"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func controllerRevision(now func() time.Time) *registry.Kind {
	type revision = appsv1.ControllerRevision
	k := row.Of[revision, appsv1.ControllerRevisionList](appsv1.SchemeGroupVersion, "controllerrevisions")
	k.Namespaced = true
	k.Served = []registry.Version{
		legacy.Version[appsv1beta2.ControllerRevision, appsv1beta2.ControllerRevisionList, revision](appsv1beta2.SchemeGroupVersion,
			appsv1.SchemeGroupVersion, "v1.9", "v1.16", nil),
		legacy.Version[appsv1beta1.ControllerRevision, appsv1beta1.ControllerRevisionList, revision](appsv1beta1.SchemeGroupVersion,
			appsv1.SchemeGroupVersion, "v1.9", "v1.16", nil),
	}
	k.Validate = typed.Check(func(r *revision) field.ErrorList {
		return check.NonNegative(r.Revision, field.NewPath("revision"))
	})
	k.ValidateCreate = typed.Check(func(r *revision) field.ErrorList {
		if len(r.Data.Raw) == 0 && r.Data.Object == nil {
			return field.ErrorList{field.Required(field.NewPath("data"), "data is mandatory")}
		}
		if raw := bytes.TrimLeft(r.Data.Raw, " \t\r\n"); len(raw) > 0 && raw[0] != '{' { // that it is JSON, decoding has seen
			return field.ErrorList{field.Required(field.NewPath("data"), "data must be a valid JSON object")}
		}
		return nil
	})
	k.ValidateUpdate = typed.CheckChange(func(r, old *revision) field.ErrorList {
		if bytes.Equal(r.Data.Raw, old.Data.Raw) {
			return nil
		}
		return check.Same(r.Data, old.Data, field.NewPath("data"))
	})
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(),
		column.String("Controller", "Controller of the object"),
		column.String("Revision", revision{}.SwaggerDoc()["revision"]),
		column.Age(),
	}
	k.Cells = typed.Get(func(r *revision) []any {
		return []any{r.Name, controllerOf(r), r.Revision, column.Since(now(), r.CreationTimestamp.Time)}
	})
	return k
}

// controllerOf is "statefulset.apps/web", or "<none>".
func controllerOf(obj metav1.Object) string {
	owner := metav1.GetControllerOfNoCopy(obj)
	if owner == nil {
		return column.None
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return column.None
	}
	return strings.ToLower(gv.WithKind(owner.Kind).GroupKind().String()) + "/" + owner.Name
}
