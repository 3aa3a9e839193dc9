package preview

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/row"
)

// The bounds of what is issued.
const (
	longestChain = 100 << 10 // bytes
	skew         = 5 * time.Minute
	beforeEnd    = 10 * time.Minute
)

// validatePodCertificateStatus wants a request to end once, by being issued, denied or failed; now is the time of the server.
func validatePodCertificateStatus(r, old *podCertificate, now time.Time) field.ErrorList {
	path := field.NewPath("status")
	if errs := validateEndings(r.Status.Conditions, path.Child("conditions")); len(errs) > 0 {
		return errs
	}
	same := equality.Semantic.DeepEqual(r.Status, old.Status)
	switch end := ending(r); {
	case same:
		return nil
	case ending(old) != "":
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "immutable after PodCertificateRequest is issued, denied, or failed")}
	case end == "":
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)}
	case end != certificatesv1beta1.PodCertificateRequestConditionTypeIssued:
		if s := r.Status; s.CertificateChain != "" || s.NotBefore != nil || s.BeginRefreshAt != nil || s.NotAfter != nil {
			return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "non-condition status fields must be empty when denying or failing the PodCertificateRequest")}
		}
		return nil
	}
	return validateIssued(r, path, now)
}

func validateEndings(conditions []metav1.Condition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	ended := false
	for i, c := range conditions {
		at := path.Child(fmt.Sprintf("[%d]", i))
		switch {
		case !slices.Contains(endings(), c.Type):
			errs = append(errs, field.NotSupported(at.Child("type"), c.Type, endings()))
		case ended:
			errs = append(errs, field.Invalid(at.Child("type"), c.Type, `There may be at most one condition with type "Issued", "Denied", or "Failed"`))
		default:
			ended = true
		}
		if slices.Contains(endings(), c.Type) && c.Status != metav1.ConditionTrue {
			errs = append(errs, field.NotSupported(at.Child("status"), c.Status, []metav1.ConditionStatus{metav1.ConditionTrue}))
		}
	}
	return append(errs, metavalidation.ValidateConditions(conditions, path)...)
}

// validateIssued wants certificates, the first for the key that was requested, and times that agree with it.
func validateIssued(r *podCertificate, path *field.Path, now time.Time) field.ErrorList {
	at, chain := path.Child("certificateChain"), r.Status.CertificateChain
	bad := func(text string) field.ErrorList { return field.ErrorList{field.Invalid(at, chain, text)} }
	if len(chain) > longestChain {
		return field.ErrorList{field.TooLong(at, chain, longestChain)}
	}
	block, rest := pem.Decode([]byte(chain))
	if block == nil {
		return bad("issued certificate chain must contain at least one certificate")
	}
	if block.Type != "CERTIFICATE" {
		return bad("issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return bad("leaf certificate does not parse as valid X.509")
	}
	if key, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !key.Equal(requestedKey(r)) {
		return bad("leaf certificate was not issued to the requested public key")
	}
	if errs := validateTimes(r, leaf, path, now); len(errs) > 0 {
		return errs
	}
	for {
		if block, rest = pem.Decode(rest); block == nil {
			return nil
		}
		if block.Type != "CERTIFICATE" {
			return bad("issued certificate chain must consist entirely of CERTFICATE PEM blocks") // so Kubernetes spells it
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return bad("intermediate certificate does not parse as valid X.509")
		}
	}
}

// requestedKey is the key of the pod, which was checked when the request was made.
func requestedKey(r *podCertificate) crypto.PublicKey {
	if len(r.Spec.StubPKCS10Request) > 0 {
		request, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
		if err != nil {
			return nil
		}
		return request.PublicKey
	}
	key, err := x509.ParsePKIXPublicKey(r.Spec.PKIXPublicKey)
	if err != nil {
		return nil
	}
	return key
}

// validateTimes wants the times of the certificate, and one between them at which to ask anew. What is absent is told at once, and of
// what is wrong the first.
func validateTimes(r *podCertificate, leaf *x509.Certificate, path *field.Path, now time.Time) field.ErrorList {
	s, begin, end, refresh := &r.Status, path.Child("notBefore"), path.Child("notAfter"), path.Child("beginRefreshAt")
	const absent = "must be present and consistent with the issued certificate"
	var errs field.ErrorList
	if s.NotBefore == nil {
		errs = append(errs, field.Required(begin, absent))
	}
	if s.NotAfter == nil {
		errs = append(errs, field.Required(end, absent))
	}
	if s.BeginRefreshAt == nil {
		errs = append(errs, field.Required(refresh, "must be present and in the range [notbefore+10min, notafter-10min]"))
	}
	if len(errs) > 0 {
		return errs
	}
	chain, life, most := path.Child("certificateChain"), leaf.NotAfter.Sub(leaf.NotBefore), row.Deref(r.Spec.MaxExpirationSeconds)
	switch {
	case !s.NotBefore.Time.Equal(leaf.NotBefore):
		return field.ErrorList{field.Invalid(begin, s.NotBefore, "must be set to the NotBefore time encoded in the leaf certificate")}
	case s.NotBefore.Time.Sub(now).Abs() > skew:
		return field.ErrorList{field.Invalid(begin, s.NotBefore, "must be set to within 5 minutes of kube-apiserver's current time")}
	case !s.NotAfter.Time.Equal(leaf.NotAfter):
		return field.ErrorList{field.Invalid(end, s.NotAfter, "must be set to the NotAfter time encoded in the leaf certificate")}
	case life > time.Duration(most)*time.Second:
		return field.ErrorList{field.Invalid(chain, life, fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%d)", most))}
	case life < time.Duration(hourOfCertificate)*time.Second:
		return field.ErrorList{field.Invalid(chain, life, "leaf certificate lifetime must be >= 1 hour")}
	case s.BeginRefreshAt.Time.Before(leaf.NotBefore.Add(beforeEnd)):
		return field.ErrorList{field.Invalid(refresh, s.BeginRefreshAt, "must be at least 10 minutes after status.notBefore")}
	case s.BeginRefreshAt.Time.After(leaf.NotAfter.Add(-beforeEnd)):
		return field.ErrorList{field.Invalid(refresh, s.BeginRefreshAt, "must be at least 10 minutes before status.notAfter")}
	}
	return nil
}
