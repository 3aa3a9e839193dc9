package beta

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"howdah.dev/services/apiserver/internal/kind/legacy"
	"howdah.dev/services/apiserver/internal/registry"
)

// request is certificates.k8s.io/v1beta1, where signer and usages may be left out.
func request() registry.Version {
	type beta = certificatesv1beta1.CertificateSigningRequest
	type stable = certificatesv1.CertificateSigningRequest
	deprecated, removed := life(&beta{})
	return legacy.Version[beta, certificatesv1beta1.CertificateSigningRequestList, stable](
		certificatesv1beta1.SchemeGroupVersion, certificatesv1.SchemeGroupVersion, deprecated, removed, func(r *stable) {
			if r.Spec.SignerName == "" {
				r.Spec.SignerName = certificatesv1beta1.LegacyUnknownSignerName
			}
			if r.Spec.Usages == nil {
				r.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
			}
		})
}
