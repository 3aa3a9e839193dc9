package kind

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func serviceAccount(now func() time.Time) *registry.Kind {
	return &registry.Kind{
		GVK:      corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		Resource: "serviceaccounts", Singular: "serviceaccount", ShortNames: []string{"sa"},
		Namespaced: true, ReturnDeleted: true,
		New:     func() registry.Object { return &corev1.ServiceAccount{} },
		NewList: func() runtime.Object { return &corev1.ServiceAccountList{} },

		// Only the names of secrets mean anything here.
		PrepareCreate: typed.Do(trimSecrets),
		PrepareUpdate: typed.Change(func(sa, _ *corev1.ServiceAccount) { trimSecrets(sa) }),
		NameIsValid:   validation.ValidateServiceAccountName,
		Warnings: typed.Warn(func(sa, old *corev1.ServiceAccount) []string {
			if _, ok := sa.Annotations[enforceMountable]; !ok || old != nil && old.Annotations[enforceMountable] != "" {
				return nil
			}
			return []string{"metadata.annotations[" + enforceMountable + "]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
		}),

		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Age(),
		},
		Cells: typed.Get(func(sa *corev1.ServiceAccount) []any {
			return []any{sa.Name, column.Since(now(), sa.CreationTimestamp.Time)}
		}),
	}
}

const enforceMountable = "kubernetes.io/enforce-mountable-secrets"

func trimSecrets(sa *corev1.ServiceAccount) {
	for i, s := range sa.Secrets {
		sa.Secrets[i] = corev1.ObjectReference{Name: s.Name}
	}
}
