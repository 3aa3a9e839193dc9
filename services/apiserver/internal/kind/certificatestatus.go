package kind

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// validateDecided checks a write of the approval: what was decided stays.
func validateDecided(r, old *signingRequest) field.ErrorList {
	return append(validateConditions(r.Status.Conditions), keepsDecisions(r, old)...)
}

// validateIssued checks a write of the status, which may not decide either.
func validateIssued(r, old *signingRequest) field.ErrorList {
	path := field.NewPath("status")
	errs := validateConditions(r.Status.Conditions)
	if len(r.Status.Certificate) > 0 {
		if err := parseCertificates(r.Status.Certificate); err != nil {
			errs = append(errs, field.Invalid(path.Child("certificate"), "<certificate data>", err.Error()))
		}
	}
	errs = append(errs, keepsDecisions(r, old)...)
	for _, t := range decisions {
		if len(conditionsOf(r.Status.Conditions, t)) > len(conditionsOf(old.Status.Conditions, t)) {
			errs = append(errs, field.Forbidden(path.Child("conditions"), fmt.Sprintf("updates may not add a condition of type %q", t)))
		}
	}
	if len(old.Status.Certificate) > 0 && !bytes.Equal(old.Status.Certificate, r.Status.Certificate) {
		errs = append(errs, field.Forbidden(path.Child("certificate"), "updates may not modify existing certificate content"))
	}
	return errs
}

func validateConditions(list []csrCondition) field.ErrorList {
	path := field.NewPath("status", "conditions")
	var errs field.ErrorList
	var seen []certificatesv1.RequestConditionType
	for i, c := range list {
		at := path.Index(i)
		if c.Type == "" {
			errs = append(errs, field.Required(at.Child("type"), ""))
		}
		allowed := []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}
		if decides(c.Type) || c.Type == certificatesv1.CertificateFailed {
			allowed = []corev1.ConditionStatus{corev1.ConditionTrue}
		}
		errs = append(errs, check.Choice(c.Status, at.Child("status"), allowed...)...)
		if decides(c.Type) && slices.ContainsFunc(seen, func(t certificatesv1.RequestConditionType) bool { return decides(t) && t != c.Type }) {
			errs = append(errs, field.Invalid(path, c.Type, "Approved and Denied conditions are mutually exclusive"))
		}
		if slices.Contains(seen, c.Type) {
			errs = append(errs, field.Duplicate(at.Child("type"), c.Type))
		}
		seen = append(seen, c.Type)
	}
	return errs
}

func keepsDecisions(r, old *signingRequest) field.ErrorList {
	var errs field.ErrorList
	for _, t := range append(slices.Clone(decisions), certificatesv1.CertificateFailed) {
		if len(conditionsOf(r.Status.Conditions, t)) < len(conditionsOf(old.Status.Conditions, t)) {
			errs = append(errs, field.Forbidden(field.NewPath("status", "conditions"), fmt.Sprintf("updates may not remove a condition of type %q", t)))
		}
	}
	return errs
}

// parseCertificates fails where the text holds anything but certificates; what is no PEM around them is let be.
func parseCertificates(text []byte) error {
	found := false
	for {
		var block *pem.Block
		block, text = pem.Decode(text)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) > 0 {
			return fmt.Errorf("no PEM block headers are permitted")
		}
		parsed, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(parsed) == 0 {
			return fmt.Errorf("found CERTIFICATE PEM block containing 0 certificates")
		}
		found = true
	}
	if !found {
		return fmt.Errorf("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}
