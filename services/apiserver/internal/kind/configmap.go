package kind

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func configMap(now func() time.Time) *registry.Kind {
	return &registry.Kind{
		GVK:      corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		Resource: "configmaps", Singular: "configmap", ShortNames: []string{"cm"},
		Namespaced: true,
		New:        func() registry.Object { return &corev1.ConfigMap{} },
		NewList:    func() runtime.Object { return &corev1.ConfigMapList{} },

		Default:        typed.Do(func(c *corev1.ConfigMap) { emptyNulls(c.BinaryData) }),
		Validate:       typed.Check(validateConfigMap),
		ValidateUpdate: typed.CheckChange(validateConfigMapUpdate),

		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.String("Data", corev1.ConfigMap{}.SwaggerDoc()["data"]), column.Age(),
		},
		Cells: typed.Get(func(c *corev1.ConfigMap) []any {
			return []any{c.Name, int64(len(c.Data) + len(c.BinaryData)), column.Since(now(), c.CreationTimestamp.Time)}
		}),
	}
}

func validateConfigMap(c *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for key, value := range c.Data {
		path := field.NewPath("data").Key(key)
		errs = append(errs, check.Each(validation.IsConfigMapKey(key), key, path)...)
		if _, both := c.BinaryData[key]; both {
			errs = append(errs, field.Invalid(path, key, "duplicate of key present in binaryData"))
		}
		size += len(value)
	}
	for key, value := range c.BinaryData {
		errs = append(errs, check.Each(validation.IsConfigMapKey(key), key, field.NewPath("binaryData").Key(key))...)
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		// The path is that of Kubernetes: the whole object.
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return errs
}

func validateConfigMapUpdate(c, old *corev1.ConfigMap) field.ErrorList {
	return immutableData(c.Immutable, old.Immutable,
		part{"data", equality.Semantic.DeepEqual(c.Data, old.Data)},
		part{"binaryData", reflect.DeepEqual(c.BinaryData, old.BinaryData)})
}

// part is a field of an object that may be immutable as a whole.
type part struct {
	name string
	same bool
}

// immutableData holds an object with "immutable: true" to it.
func immutableData(now, before *bool, parts ...part) field.ErrorList {
	if before == nil || !*before {
		return nil
	}
	var errs field.ErrorList
	const text = "field is immutable when `immutable` is set"
	if now == nil || !*now {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), text))
	}
	for _, p := range parts {
		if !p.same {
			errs = append(errs, field.Forbidden(field.NewPath(p.name), text))
		}
	}
	return errs
}
