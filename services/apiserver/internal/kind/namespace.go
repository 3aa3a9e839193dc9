package kind

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func namespace(now func() time.Time) *registry.Kind {
	return &registry.Kind{
		GVK:      corev1.SchemeGroupVersion.WithKind("Namespace"),
		Resource: "namespaces", Singular: "namespace", ShortNames: []string{"ns"}, OneByOne: true,
		New:     func() registry.Object { return &corev1.Namespace{} },
		NewList: func() runtime.Object { return &corev1.NamespaceList{} },

		Default: typed.Do(func(ns *corev1.Namespace) {
			ns.Status.Phase = cmp.Or(ns.Status.Phase, corev1.NamespaceActive)
			labelByName(ns)
		}),
		Complete: func(obj registry.Object, _ registry.Caller) { labelByName(obj.(*corev1.Namespace)) },
		PrepareCreate: typed.Do(func(ns *corev1.Namespace) {
			ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
			if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
				ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
			}
		}),
		PrepareUpdate: typed.Change(func(ns, old *corev1.Namespace) {
			ns.Spec.Finalizers, ns.Status = old.Spec.Finalizers, old.Status
		}),
		Validate:    typed.Check(validateFinalizers),
		NameIsValid: validation.ValidateNamespaceName,

		Status: &registry.Status{
			PrepareUpdate: typed.Change(func(ns, old *corev1.Namespace) { ns.Spec = old.Spec }),
			ValidateUpdate: typed.CheckChange(func(ns, _ *corev1.Namespace) field.ErrorList {
				path := field.NewPath("status", "Phase") // so spelled
				switch deleted := ns.DeletionTimestamp != nil; {
				case deleted && ns.Status.Phase != corev1.NamespaceTerminating:
					return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")}
				case !deleted && ns.Status.Phase != corev1.NamespaceActive:
					return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")}
				}
				return nil
			}),
		},
		Writes: map[string]*registry.Status{"finalize": {
			Untabled:      true,
			PrepareUpdate: typed.Change(func(ns, old *corev1.Namespace) { ns.Status = old.Status }),
			ValidateUpdate: typed.CheckChange(func(ns, _ *corev1.Namespace) field.ErrorList {
				var errs field.ErrorList
				for i, f := range ns.Spec.Finalizers {
					errs = append(errs, check.Finalizer(string(f), field.NewPath("spec", "finalizers").Index(i))...)
				}
				return errs
			}),
		}},
		BeginDelete: typed.Do(func(ns *corev1.Namespace) {
			ns.Status.Phase, ns.DeletionGracePeriodSeconds = corev1.NamespaceTerminating, nil // its end is no matter of time
		}),
		Holds: typed.Get(func(ns *corev1.Namespace) bool { return len(ns.Spec.Finalizers) > 0 }),

		SelectableFields: typed.Get(func(ns *corev1.Namespace) fields.Set {
			return fields.Set{"status.phase": string(ns.Status.Phase)}
		}),
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.String("Status", "The status of the namespace"), column.Age(),
		},
		Cells: typed.Get(func(ns *corev1.Namespace) []any {
			return []any{ns.Name, string(ns.Status.Phase), column.Since(now(), ns.CreationTimestamp.Time)}
		}),
	}
}

func validateFinalizers(ns *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "finalizers")
	for _, f := range ns.Spec.Finalizers {
		errs = append(errs, check.Finalizer(string(f), path)...)
	}
	return errs
}

// labelByName gives a namespace its name as a label, as every one has since 1.21, so that selectors can name it. One whose name is to be generated has none yet.
func labelByName(ns *corev1.Namespace) {
	if ns.Name == "" {
		return
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}
