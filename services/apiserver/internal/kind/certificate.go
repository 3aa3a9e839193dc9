package kind

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

type signingRequest = certificatesv1.CertificateSigningRequest

func certificateSigningRequest(now func() time.Time) *registry.Kind {
	k := row.Of[signingRequest, certificatesv1.CertificateSigningRequestList](certificatesv1.SchemeGroupVersion, "certificatesigningrequests")
	k.ShortNames = []string{"csr"}
	k.NameIsValid = func(string, bool) []string { return nil } // but for what no path can have
	k.PrepareCreate = typed.Do(func(r *signingRequest) { r.Status = certificatesv1.CertificateSigningRequestStatus{} })
	// Who asks is what the signer goes by: nobody says that of himself.
	k.Complete = func(obj registry.Object, by registry.Caller) {
		s := &obj.(*signingRequest).Spec
		s.Username, s.UID, s.Groups, s.Extra = by.Name, by.UID, slices.Clone(by.Groups), nil
		for key, values := range by.Extra {
			if s.Extra == nil {
				s.Extra = map[string]certificatesv1.ExtraValue{}
			}
			s.Extra[key] = slices.Clone(values)
		}
	}
	k.PrepareUpdate = typed.Change(func(r, old *signingRequest) { r.Spec, r.Status = old.Spec, old.Status })
	typed.Ratchet(k, validateSigningRequest)
	k.Untracked = []string{"spec"}
	k.Status = &registry.Status{
		Untracked: []string{"status.conditions"},
		PrepareUpdate: typed.Change(func(r, old *signingRequest) {
			r.Spec = old.Spec
			r.Status.Conditions = stamped(undecided(r.Status.Conditions, old.Status.Conditions), old.Status.Conditions, metav1.NewTime(now()))
		}),
		ValidateUpdate: typed.CheckChange(validateIssued),
	}
	k.Writes = map[string]*registry.Status{"approval": {
		Untabled: true,
		PrepareUpdate: typed.Change(func(r, old *signingRequest) {
			list := r.Status.Conditions
			r.Spec, r.Status = old.Spec, old.Status
			r.Status.Conditions = stamped(list, old.Status.Conditions, metav1.NewTime(now()))
		}),
		ValidateUpdate: typed.CheckChange(validateDecided),
	}}
	k.SelectableFields = typed.Get(func(r *signingRequest) fields.Set { return fields.Set{"spec.signerName": r.Spec.SignerName} })
	doc := certificatesv1beta1.CertificateSigningRequestSpec{}.SwaggerDoc() // the texts are older than the version
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.Age(), column.String("SignerName", doc["signerName"]), column.String("Requestor", doc["request"]),
		column.String("RequestedDuration", doc["expirationSeconds"]),
		column.String("Condition", certificatesv1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"]),
	}
	k.Cells = typed.Get(func(r *signingRequest) []any {
		wanted := column.None
		if n := r.Spec.ExpirationSeconds; n != nil {
			wanted = duration.HumanDuration(time.Duration(*n) * time.Second)
		}
		return []any{
			r.Name, column.Since(now(), r.CreationTimestamp.Time), column.Or(r.Spec.SignerName, column.None), r.Spec.Username, wanted, condition(r),
		}
	})
	return k
}

func hasCondition(r *signingRequest, t certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == t })
}

func condition(r *signingRequest) string {
	text := "Pending"
	switch {
	case hasCondition(r, certificatesv1.CertificateDenied):
		text = "Denied"
	case hasCondition(r, certificatesv1.CertificateApproved):
		text = "Approved"
	}
	if hasCondition(r, certificatesv1.CertificateFailed) {
		text += ",Failed"
	}
	if len(r.Status.Certificate) > 0 {
		text += ",Issued"
	}
	return text
}

type csrCondition = certificatesv1.CertificateSigningRequestCondition

// decisions are the conditions that say what was decided.
var decisions = []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied}

func decides(t certificatesv1.RequestConditionType) bool { return slices.Contains(decisions, t) }

// undecided leaves decisions as they are: approval has a subresource, and permissions, of its own. More or fewer than there were are left to validation.
func undecided(now, old []csrCondition) []csrCondition {
	out := slices.Clone(now)
	for _, t := range decisions {
		was := conditionsOf(old, t)
		if len(conditionsOf(out, t)) != len(was) {
			continue
		}
		for i := range out {
			if out[i].Type == t {
				out[i], was = was[0], was[1:]
			}
		}
	}
	return out
}

func conditionsOf(list []csrCondition, t certificatesv1.RequestConditionType) []csrCondition {
	return slices.DeleteFunc(slices.Clone(list), func(c csrCondition) bool { return c.Type != t })
}

// stamped fills the times that the client left out.
func stamped(list, old []csrCondition, now metav1.Time) []csrCondition {
	out := slices.Clone(list)
	for i := range out {
		c := &out[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		same := slices.IndexFunc(old, func(o csrCondition) bool {
			return o.Type == c.Type && o.Status == c.Status && !o.LastTransitionTime.IsZero()
		})
		if same >= 0 {
			c.LastTransitionTime = old[same].LastTransitionTime
		}
	}
	return out
}

const (
	shortestCertificate = 600 // seconds
)

// validateSigningRequest lets requests keep usages and signers of the kind that old has, which older versions took.
func validateSigningRequest(r, old *signingRequest) field.ErrorList {
	if old == nil {
		old = &signingRequest{}
	}
	path := field.NewPath("spec")
	var errs field.ErrorList
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		errs = append(errs, field.Invalid(path.Child("request"), r.Spec.Request, "PEM block type must be CERTIFICATE REQUEST"))
	} else if request, err := x509.ParseCertificateRequest(block.Bytes); err != nil {
		errs = append(errs, field.Invalid(path.Child("request"), r.Spec.Request, err.Error()))
	} else if err := request.CheckSignature(); err != nil { // who asks has not the key
		errs = append(errs, field.Invalid(path.Child("request"), r.Spec.Request, err.Error()))
	}
	if len(r.Spec.Usages) == 0 {
		errs = append(errs, field.Required(path.Child("usages"), ""))
	}
	usages := keyUsages()
	unknown := func(u certificatesv1.KeyUsage) bool { return !slices.Contains(usages, u) }
	if !slices.ContainsFunc(old.Spec.Usages, unknown) {
		for i, u := range r.Spec.Usages {
			if unknown(u) {
				errs = append(errs, field.NotSupported(path.Child("usages").Index(i), u, usages))
			}
		}
	}
	repeated := func(list []certificatesv1.KeyUsage, i int) bool { return slices.Contains(list[:i], list[i]) }
	tolerated := false
	for i := range old.Spec.Usages {
		tolerated = tolerated || repeated(old.Spec.Usages, i)
	}
	for i, u := range r.Spec.Usages {
		if !tolerated && repeated(r.Spec.Usages, i) {
			errs = append(errs, field.Duplicate(path.Child("usages").Index(i), u))
		}
	}
	if r.Spec.SignerName == legacySigner && old.Spec.SignerName != legacySigner {
		errs = append(errs, field.Invalid(path.Child("signerName"), r.Spec.SignerName, "the legacy signerName is not allowed via this API version"))
	} else {
		errs = append(errs, check.Signer(r.Spec.SignerName, path.Child("signerName"))...)
	}
	if n := r.Spec.ExpirationSeconds; n != nil && *n < shortestCertificate {
		errs = append(errs, field.Invalid(path.Child("expirationSeconds"), *n, "may not specify a duration less than 600 seconds (10 minutes)"))
	}
	return errs
}

// legacySigner is what requests of the beta version were given that named no signer.
const legacySigner = "kubernetes.io/legacy-unknown"

func keyUsages() []certificatesv1.KeyUsage {
	all := map[certificatesv1.KeyUsage]bool{}
	for _, u := range []certificatesv1.KeyUsage{
		certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature, certificatesv1.UsageContentCommitment, certificatesv1.UsageKeyEncipherment,
		certificatesv1.UsageKeyAgreement, certificatesv1.UsageDataEncipherment, certificatesv1.UsageCertSign, certificatesv1.UsageCRLSign,
		certificatesv1.UsageEncipherOnly, certificatesv1.UsageDecipherOnly, certificatesv1.UsageAny, certificatesv1.UsageServerAuth,
		certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning, certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME,
		certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel, certificatesv1.UsageIPsecUser, certificatesv1.UsageTimestamping,
		certificatesv1.UsageOCSPSigning, certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC,
	} {
		all[u] = true
	}
	return slices.Sorted(maps.Keys(all))
}
