package preview

import (
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

type podCertificate = certificatesv1beta1.PodCertificateRequest

// podCertificateRequest is what a node asks of a signer for a pod.
func podCertificateRequest(now func() time.Time) *registry.Kind {
	k := row.Of[podCertificate, certificatesv1beta1.PodCertificateRequestList](certificatesv1beta1.SchemeGroupVersion, "podcertificaterequests")
	k.Namespaced, k.NeedsRevision, k.TracksStatus, k.Feature = true, true, true, featurePodCertificate
	row.SpecStatusUncounted(k, func(r *podCertificate) *certificatesv1beta1.PodCertificateRequestSpec { return &r.Spec },
		func(r *podCertificate) *certificatesv1beta1.PodCertificateRequestStatus { return &r.Status },
		func(r, old *podCertificate) field.ErrorList { return validatePodCertificateStatus(r, old, now()) })
	row.KeepMeta(k)
	k.Status.Untracked = nil
	k.Default = typed.Do(func(r *podCertificate) { row.Set(&r.Spec.MaxExpirationSeconds, dayOfCertificate) })
	k.ValidateCreate = typed.Check(validatePodCertificate)
	k.ValidateUpdate = typed.CheckChange(func(r, old *podCertificate) field.ErrorList {
		return check.Same(r.Spec, old.Spec, field.NewPath("spec"))
	})
	k.SelectableFields = typed.Get(func(r *podCertificate) fields.Set {
		return fields.Set{"spec.signerName": r.Spec.SignerName, "spec.podName": r.Spec.PodName, "spec.nodeName": string(r.Spec.NodeName)}
	})
	doc := certificatesv1beta1.PodCertificateRequestSpec{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("PodName", doc["podName"]), column.String("ServiceAccountName", doc["serviceAccountName"]),
		column.String("NodeName", doc["nodeName"]), column.String("SignerName", doc["signerName"]),
		column.String("State", "Is the request Pending, Issued, Denied, or Failed?"),
		column.String("UnverifiedUserAnnotations", doc["unverifiedUserAnnotations"]),
	}
	k.Cells = typed.Get(func(r *podCertificate) []any {
		s := &r.Spec
		return []any{
			r.Name, s.PodName, s.ServiceAccountName, string(s.NodeName), s.SignerName, column.Or(ending(r), "Pending"),
			column.Labels(s.UnverifiedUserAnnotations),
		}
	})
	return k
}

// endings are the conditions one of which ends a request.
func endings() []string {
	return []string{
		certificatesv1beta1.PodCertificateRequestConditionTypeIssued, certificatesv1beta1.PodCertificateRequestConditionTypeDenied,
		certificatesv1beta1.PodCertificateRequestConditionTypeFailed,
	}
}

// ending is the condition that has ended a request, or empty.
func ending(r *podCertificate) string {
	for _, c := range r.Status.Conditions {
		for _, e := range endings() {
			if c.Type == e {
				return e
			}
		}
	}
	return ""
}
