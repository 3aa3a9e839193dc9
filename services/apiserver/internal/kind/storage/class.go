package storage

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// The annotations of the class that claims without a class get, now and in beta.
const (
	defaultClass     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
)

func class(now func() time.Time) *registry.Kind {
	k := row.Of[storagev1.StorageClass, storagev1.StorageClassList](storagev1.SchemeGroupVersion, "storageclasses")
	k.ShortNames = []string{"sc"}
	k.Default = typed.Do(func(c *storagev1.StorageClass) {
		row.Set(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		row.Set(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	})
	k.Validate = typed.Check(validateClass)
	k.ValidateUpdate = typed.CheckChange(func(c, old *storagev1.StorageClass) field.ErrorList {
		errs := check.Same(c.Parameters, old.Parameters, field.NewPath("parameters"))
		errs = append(errs, check.Same(c.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
		errs = append(errs, check.Same(c.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
		return append(errs, check.Same(c.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
	})
	doc := storagev1.StorageClass{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("Provisioner", doc["provisioner"]), column.String("ReclaimPolicy", doc["reclaimPolicy"]),
		column.String("VolumeBindingMode", doc["volumeBindingMode"]), column.String("AllowVolumeExpansion", doc["allowVolumeExpansion"]), column.Age(),
	}
	k.Cells = typed.Get(func(c *storagev1.StorageClass) []any {
		name := c.Name
		if c.Annotations[defaultClass] == "true" || c.Annotations[betaDefaultClass] == "true" {
			name += " (default)"
		}
		return []any{
			name, c.Provisioner, column.Or(string(row.Deref(c.ReclaimPolicy)), string(corev1.PersistentVolumeReclaimDelete)),
			column.Or(string(row.Deref(c.VolumeBindingMode)), string(storagev1.VolumeBindingImmediate)),
			row.Deref(c.AllowVolumeExpansion), column.Since(now(), c.CreationTimestamp.Time),
		}
	})
	return k
}

func fixed(value, old any, name string) field.ErrorList {
	if equality.Semantic.DeepEqual(value, old) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath(name), "updates to "+name+" are forbidden.")}
}

func validateClass(c *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, plugin(c.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, parameters(c.Parameters, true)...)
	if p := row.Deref(c.ReclaimPolicy); p != "" {
		errs = append(errs, check.OneOf(p, field.NewPath("reclaimPolicy"), corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	mode := field.NewPath("volumeBindingMode")
	if c.VolumeBindingMode == nil {
		errs = append(errs, field.Required(mode, ""))
	} else {
		errs = append(errs, check.OneOf(*c.VolumeBindingMode, mode, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
	}
	return append(errs, validateTopologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
}

// plugin checks the name of what serves volumes, as [domain/]name in any case.
func plugin(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, name)}
	}
	return check.QualifiedName(strings.ToLower(name), at)
}

func validateTopologies(terms []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range terms {
		expressions := path.Index(i).Child("matchLabelExpressions")
		keys := map[string]bool{}
		for j, e := range t.MatchLabelExpressions {
			p := expressions.Index(j)
			values := map[string]bool{}
			if len(e.Values) == 0 {
				errs = append(errs, field.Required(p.Child("values"), ""))
			}
			for n, v := range e.Values {
				if values[v] {
					errs = append(errs, field.Duplicate(p.Child("values").Index(n), v))
				}
				values[v] = true
			}
			errs = append(errs, check.QualifiedName(e.Key, p.Child("key"))...)
			if keys[e.Key] {
				errs = append(errs, field.Duplicate(p.Child("key"), e.Key))
			}
			keys[e.Key] = true
		}
		for j, other := range terms {
			// A term of nothing is taken for a repetition of every one.
			if len(t.MatchLabelExpressions) == 0 || j < i && sameTerm(t, other) {
				errs = append(errs, field.Duplicate(expressions, ""))
			}
		}
		for j := range i {
			if len(t.MatchLabelExpressions) == 0 && len(terms[j].MatchLabelExpressions) == 0 {
				errs = append(errs, field.Duplicate(expressions, ""))
			}
		}
	}
	return errs
}

// sameTerm reports terms that select the same, whatever their order.
func sameTerm(a, b corev1.TopologySelectorTerm) bool {
	return equality.Semantic.DeepEqual(selected(a), selected(b))
}

// selected are the values of each key, of which the last ones count.
func selected(t corev1.TopologySelectorTerm) map[string]sets.Set[string] {
	values := map[string]sets.Set[string]{}
	for _, e := range t.MatchLabelExpressions {
		values[e.Key] = sets.New(e.Values...)
	}
	return values
}

// The bounds of parameters, which drivers get with each request.
const (
	mostParameters     = 512
	longestParameters  = 256 * 1024
	emptyParameterText = "field can not be empty."
)

func parameters(m map[string]string, mayBeEmpty bool) field.ErrorList {
	path := field.NewPath("parameters")
	if len(m) == 0 && !mayBeEmpty {
		return field.ErrorList{field.Required(path, "must contain at least one key/value pair")}
	}
	if len(m) > mostParameters {
		return field.ErrorList{field.TooLong(path, "Provisioner Parameters exceeded max allowed", mostParameters)}
	}
	var errs field.ErrorList
	size := 0
	for key, value := range m {
		if key == "" {
			errs = append(errs, field.Invalid(path, key, emptyParameterText))
		}
		size += len(key) + len(value)
	}
	if size > longestParameters {
		errs = append(errs, field.TooLong(path, "", longestParameters))
	}
	return errs
}

func attributesClass(now func() time.Time) *registry.Kind {
	type vac = storagev1.VolumeAttributesClass
	k := row.Of[vac, storagev1.VolumeAttributesClassList](storagev1.SchemeGroupVersion, "volumeattributesclasses")
	k.ShortNames = []string{"vac"}
	check := func(c *vac) field.ErrorList {
		return append(plugin(c.DriverName, field.NewPath("driverName")), parameters(c.Parameters, false)...)
	}
	k.Validate = typed.Check(check)
	k.ValidateUpdate = typed.CheckChange(func(c, old *vac) field.ErrorList {
		return append(fixed(c.DriverName, old.DriverName, "driverName"), fixed(c.Parameters, old.Parameters, "parameters")...)
	})
	k.Columns = []metav1.TableColumnDefinition{column.Name(), column.String("DriverName", vac{}.SwaggerDoc()["driverName"]), column.Age()}
	k.Cells = typed.Get(func(c *vac) []any {
		return []any{c.Name, c.DriverName, column.Since(now(), c.CreationTimestamp.Time)}
	})
	return k
}
