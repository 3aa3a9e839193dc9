package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
)

// validateMode checks the permission bits of files.
func validateMode(mode *int32, path *field.Path) field.ErrorList {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		return field.ErrorList{field.Invalid(path, *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
	}
	return nil
}

// validateItems checks which keys become which files.
func validateItems(items []corev1.KeyToPath, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, item := range items {
		at := path.Index(i)
		errs = append(errs, need(at, "key", item.Key, "path", item.Path)...)
		errs = append(errs, check.FilePath(item.Path, at.Child("path"))...)
		errs = append(errs, validateMode(item.Mode, at.Child("mode"))...)
	}
	return errs
}

func validateDownward(items []corev1.DownwardAPIVolumeFile, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range items {
		item := &items[i]
		// Kubernetes names the list, not the item, in these errors.
		errs = append(errs, need(path, "path", item.Path)...)
		errs = append(errs, check.FilePath(item.Path, path.Child("path"))...)
		switch {
		case item.FieldRef != nil:
			errs = append(errs, validateFieldRef(item.FieldRef, fileFields, path.Child("fieldRef"))...)
			if item.ResourceFieldRef != nil {
				errs = append(errs, field.Invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
			}
		case item.ResourceFieldRef != nil:
			errs = append(errs, validateResourceRef(item.ResourceFieldRef, true, path.Child("resourceFieldRef"))...)
		default:
			errs = append(errs, field.Required(path, "one of fieldRef and resourceFieldRef is required"))
		}
		errs = append(errs, validateMode(item.Mode, path.Child("mode"))...)
	}
	return errs
}

// The lifetimes, in seconds, that a projected token may have.
const (
	shortestToken = 10 * 60
	longestToken  = 1 << 32
)

func validateProjected(p *corev1.ProjectedVolumeSource, path *field.Path) field.ErrorList {
	errs := validateMode(p.DefaultMode, path.Child("defaultMode"))
	files := files{}
	for i := range p.Sources {
		s, at := &p.Sources[i], path.Child("sources").Index(i)
		a := &alternatives{path: at, moreThanOne: "may not specify more than 1 volume type"}
		a.when(s.Secret != nil, "secret", func(at *field.Path) field.ErrorList {
			errs := need(at, "name", s.Secret.Name)
			errs = append(errs, validateItems(s.Secret.Items, at.Child("items"))...)
			return append(errs, files.items(s.Secret.Items, at)...)
		})
		a.when(s.ConfigMap != nil, "configMap", func(at *field.Path) field.ErrorList {
			errs := need(at, "name", s.ConfigMap.Name)
			errs = append(errs, validateItems(s.ConfigMap.Items, at.Child("items"))...)
			return append(errs, files.items(s.ConfigMap.Items, at)...)
		})
		a.when(s.DownwardAPI != nil, "downwardAPI", func(at *field.Path) field.ErrorList {
			errs := validateDownward(s.DownwardAPI.Items, at.Child("items"))
			for _, item := range s.DownwardAPI.Items {
				errs = append(errs, files.add(item.Path, at)...)
			}
			return errs
		})
		a.when(s.ServiceAccountToken != nil, "serviceAccountToken", func(at *field.Path) field.ErrorList {
			errs := validateToken(s.ServiceAccountToken, at)
			return append(errs, files.add(s.ServiceAccountToken.Path, at)...)
		})
		a.when(s.ClusterTrustBundle != nil, "clusterTrustBundle", refuse)
		a.when(s.PodCertificate != nil, "podCertificate", refuse)
		errs = append(errs, a.errs...)
	}
	return errs
}

func refuse(path *field.Path) field.ErrorList {
	return field.ErrorList{field.Forbidden(path, absent)}
}

func validateToken(t *corev1.ServiceAccountTokenProjection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("expirationSeconds")
	switch n := t.ExpirationSeconds; {
	case n == nil:
		errs = append(errs, field.Required(at, ""))
	case *n < shortestToken:
		errs = append(errs, field.Invalid(at, *n, "may not specify a duration less than 10 minutes"))
	case *n > longestToken:
		errs = append(errs, field.Invalid(at, *n, "may not specify a duration larger than 2^32 seconds"))
	}
	if t.Path == "" {
		return append(errs, field.Required(path.Child("path"), ""))
	}
	return append(errs, check.FilePath(t.Path, path.Child("path"))...)
}

// files are the paths that the sources of one projected volume make.
type files map[string]bool

func (f files) items(items []corev1.KeyToPath, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, item := range items {
		errs = append(errs, f.add(item.Path, path)...)
	}
	return errs
}

// add refuses a path that is taken, or that is a folder of one, or in one.
func (f files) add(p string, path *field.Path) field.ErrorList {
	if p == "" {
		return nil
	}
	var errs field.ErrorList
	if f[p] {
		errs = append(errs, field.Invalid(path, p, "conflicting duplicate paths"))
	}
	var others []string
	for other := range f {
		if strings.HasPrefix(other, p+"/") || strings.HasPrefix(p, other+"/") {
			others = append(others, other)
		}
	}
	slices.Sort(others)
	for _, other := range others {
		errs = append(errs, field.Invalid(path, p, fmt.Sprintf("conflicts with path %q", other)))
	}
	f[p] = true
	return errs
}
