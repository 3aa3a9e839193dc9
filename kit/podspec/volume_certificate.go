package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// The lifetimes, in seconds, that a projected certificate may have; those of Kubernetes' own signers are shorter.
const (
	shortestCertificate   = 60 * 60
	longestCertificate    = 91 * 24 * 60 * 60
	longestOwnCertificate = 24 * 60 * 60
)

// validatePodCertificate checks a projected key and certificate.
func validatePodCertificate(c *corev1.PodCertificateProjection, path *field.Path) field.ErrorList {
	errs := check.Signer(c.SignerName, path.Child("signerName"))
	errs = append(errs, check.UserAnnotations(c.UserAnnotations, path.Child("userAnnotations"))...)
	errs = append(errs, check.Listed(c.KeyType, path.Child("keyType"), "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")...)
	most := int32(longestCertificate)
	if check.OwnSigner(c.SignerName) {
		most = longestOwnCertificate
	}
	if n := c.MaxExpirationSeconds; n != nil {
		at := path.Child("maxExpirationSeconds")
		if *n < shortestCertificate {
			errs = append(errs, field.Invalid(at, *n, fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", shortestCertificate)))
		}
		if *n > most {
			errs = append(errs, field.Invalid(at, *n, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", most)))
		}
	}
	files := 0
	for _, f := range []struct{ name, file string }{
		{"credentialBundlePath", c.CredentialBundlePath}, {"keyPath", c.KeyPath}, {"certificateChainPath", c.CertificateChainPath},
	} {
		if f.file != "" {
			files++
			errs = append(errs, check.FilePath(f.file, path.Child(f.name))...)
		}
	}
	if files == 0 {
		errs = append(errs, field.Required(path, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"))
	}
	return errs
}
