package kind

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/kind/workload"
	"howdah.dev/services/apiserver/internal/registry"
)

func podTemplate() *registry.Kind {
	k := row.Of[corev1.PodTemplate, corev1.PodTemplateList](corev1.SchemeGroupVersion, "podtemplates")
	k.Namespaced = true
	row.Spec(k, func(t *corev1.PodTemplate) *corev1.PodTemplateSpec { return &t.Template })
	k.Default = typed.Do(func(t *corev1.PodTemplate) { podspec.Default(&t.Template.Spec) })
	k.Validate = typed.Check(func(t *corev1.PodTemplate) field.ErrorList {
		return podspec.ValidateTemplate(&t.Template, field.NewPath("template"))
	})
	workload.Ratchet(k, func(t *corev1.PodTemplate) *corev1.PodTemplateSpec { return &t.Template })
	k.Warnings = typed.WarnOfSpec(func(t *corev1.PodTemplate) []string {
		path := field.NewPath("template")
		return podspec.Warnings(&t.Template.Spec, &t.Template.ObjectMeta, path.Child("spec"), path.Child("metadata", "annotations"))
	})
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(),
		column.String("Containers", "Names of each container in the template."),
		column.String("Images", "Images referenced by each container in the template."),
		column.String("Pod Labels", "The labels for the pod template."),
	}
	k.Cells = typed.Get(func(t *corev1.PodTemplate) []any {
		names, images := column.Containers(t.Template.Spec.Containers)
		return []any{t.Name, names, images, column.Labels(t.Template.Labels)}
	})
	return k
}
