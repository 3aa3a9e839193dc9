package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// internalTrustBundle has the field names of Kubernetes' internal type, by which its errors show the value.
type internalTrustBundle struct {
	Name, SignerName *string
	LabelSelector    *metav1.LabelSelector
	Optional         *bool
	Path             string
}

// validateTrustBundle checks projected certificates of authorities: those of one object, or those that a signer's selected objects have together.
func validateTrustBundle(b *corev1.ClusterTrustBundleProjection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case b.Name != nil && b.SignerName != nil:
		errs = append(errs, field.Invalid(path, internalOf(b), "only one of name and signerName may be used"))
	case b.Name != nil:
		errs = append(errs, validateTrustBundleName(*b.Name, path.Child("name"))...)
		if b.LabelSelector != nil {
			errs = append(errs, field.Invalid(path.Child("labelSelector"), b.LabelSelector, "labelSelector must be unset if name is specified"))
		}
	case b.SignerName != nil:
		at := path.Child("signerName")
		if *b.SignerName == "" {
			errs = append(errs, field.Required(at, "must be a valid signer name"))
		}
		errs = append(errs, check.Signer(*b.SignerName, at)...)
		errs = append(errs, metavalidation.ValidateLabelSelector(b.LabelSelector, metavalidation.LabelSelectorValidationOptions{}, path.Child("labelSelector"))...)
	default:
		errs = append(errs, field.Required(path, "either name or signerName must be specified"))
	}
	if b.Path == "" {
		errs = append(errs, field.Required(path.Child("path"), ""))
	}
	return append(errs, check.FilePath(b.Path, path.Child("path"))...)
}

func internalOf(b *corev1.ClusterTrustBundleProjection) internalTrustBundle {
	return internalTrustBundle{b.Name, b.SignerName, b.LabelSelector, b.Optional, b.Path}
}

// validateTrustBundleName checks a name from which the signer is to be told.
func validateTrustBundleName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(path, "must be a valid object name"))
	}
	signer := ""
	if i := strings.LastIndex(name, ":"); i >= 0 {
		signer = strings.ReplaceAll(name[:i], ":", "/")
	}
	for _, problem := range check.TrustBundleName(name, signer) {
		errs = append(errs, field.Invalid(path, name, "not a valid clustertrustbundlename: "+problem))
	}
	return errs
}

// trustBundleName is what a warning calls projected certificates of authorities.
func trustBundleName(b *corev1.ClusterTrustBundleProjection) string {
	switch {
	case b.Name != nil:
		return *b.Name
	case b.SignerName != nil:
		return *b.SignerName
	}
	return ""
}
