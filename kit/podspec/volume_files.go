package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
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
		// Kubernetes names the volume, not the item, in these errors.
		item := &items[i]
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
	files := map[string]bool{}
	// Kubernetes names the volume, and whatever the file comes from.
	add := func(file, from string) field.ErrorList {
		if file == "" {
			return nil
		}
		if files[file] {
			return field.ErrorList{field.Invalid(path, from, "conflicting duplicate paths")}
		}
		files[file] = true
		return nil
	}
	for i := range p.Sources {
		s, at := &p.Sources[i], path.Child("sources").Index(i)
		kinds := 0
		if s.Secret != nil {
			kinds++
			errs = append(errs, validateProjectedItems(s.Secret.Name, s.Secret.Items, add, at.Child("secret"))...)
		}
		if s.ConfigMap != nil {
			kinds++
			errs = append(errs, validateProjectedItems(s.ConfigMap.Name, s.ConfigMap.Items, add, at.Child("configMap"))...)
		}
		if s.DownwardAPI != nil {
			kinds++
			errs = append(errs, validateDownward(s.DownwardAPI.Items, at.Child("downwardAPI"))...)
			for _, item := range s.DownwardAPI.Items {
				errs = append(errs, add(item.Path, item.Path)...)
			}
		}
		if s.ServiceAccountToken != nil {
			kinds++
			errs = append(errs, validateToken(s.ServiceAccountToken, at.Child("serviceAccountToken"), path)...)
		}
		if b := s.ClusterTrustBundle; b != nil {
			kinds++
			errs = append(errs, validateTrustBundle(b, at.Child("clusterTrustBundle"))...)
			errs = append(errs, add(b.Path, b.Path)...)
		}
		if c := s.PodCertificate; c != nil {
			kinds++
			errs = append(errs, validatePodCertificate(c, at.Child("podCertificate"))...)
			for _, file := range []string{c.CredentialBundlePath, c.KeyPath, c.CertificateChainPath} {
				errs = append(errs, add(file, file)...)
			}
		}
		if kinds > 1 {
			errs = append(errs, field.Forbidden(at, "may not specify more than 1 volume type per source"))
		}
	}
	return errs
}

func validateProjectedItems(name string, items []corev1.KeyToPath, add func(file, from string) field.ErrorList, path *field.Path) field.ErrorList {
	errs := need(path, "name", name)
	errs = append(errs, validateItems(items, path.Child("items"))...)
	for _, item := range items {
		errs = append(errs, add(item.Path, name)...)
	}
	return errs
}

// validateTokens refuses tokens of nobody: admission gives new pods an account, but who updates one may leave it out.
func validateTokens(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range spec.Volumes {
		if spec.ServiceAccountName != "" || v.Projected == nil {
			continue
		}
		for j, source := range v.Projected.Sources {
			if source.ServiceAccountToken != nil {
				errs = append(errs, field.Forbidden(path.Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
					"must not be specified when serviceAccountName is not set"))
			}
		}
	}
	return errs
}

// validateToken checks a projected token; volume is the path of the volume, at which Kubernetes reports bad files.
func validateToken(t *corev1.ServiceAccountTokenProjection, path, volume *field.Path) field.ErrorList {
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
		return append(errs, field.Required(volume.Child("path"), ""))
	}
	return append(errs, check.FilePath(t.Path, volume.Child("path"))...)
}
