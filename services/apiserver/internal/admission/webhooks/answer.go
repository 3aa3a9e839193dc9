package webhooks

import (
	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kjson "sigs.k8s.io/json"
)

// reviews reads the answers of webhooks, JSON or YAML, with the errors that Kubernetes' clients give.
type reviews struct{ decoder runtime.Decoder }

func newReviews() reviews {
	scheme := runtime.NewScheme()
	utilruntime.Must(admissionv1.AddToScheme(scheme))
	utilruntime.Must(admissionv1beta1.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	return reviews{serializer.NewCodecFactory(scheme).LegacyCodec(admissionv1.SchemeGroupVersion, admissionv1beta1.SchemeGroupVersion)}
}

var reviewKind = admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")

// read returns a review of the version that was sent.
func (r reviews) read(body []byte, version string) (*admissionv1.AdmissionReview, error) {
	if version != "v1" {
		old := &admissionv1beta1.AdmissionReview{}
		if err := runtime.DecodeInto(r.decoder, body, old); err != nil {
			return nil, err
		}
		return &admissionv1.AdmissionReview{TypeMeta: old.TypeMeta, Response: fromBeta(old.Response)}, nil
	}
	review := &admissionv1.AdmissionReview{}
	if kjson.UnmarshalCaseSensitivePreserveInts(body, review) == nil && review.GroupVersionKind() == reviewKind {
		return review, nil
	}
	*review = admissionv1.AdmissionReview{} // YAML, or what is wrong in the decoder's words
	return review, runtime.DecodeInto(r.decoder, body, review)
}

func fromBeta(in *admissionv1beta1.AdmissionResponse) *admissionv1.AdmissionResponse {
	if in == nil {
		return nil
	}
	return &admissionv1.AdmissionResponse{
		UID: in.UID, Allowed: in.Allowed, Result: in.Result, Patch: in.Patch, PatchType: (*admissionv1.PatchType)(in.PatchType),
		AuditAnnotations: in.AuditAnnotations, Warnings: in.Warnings,
	}
}
