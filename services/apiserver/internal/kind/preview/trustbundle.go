package preview

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"

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

type bundle = certificatesv1beta1.ClusterTrustBundle

// omitted stands for certificates, which would make messages long.
const omitted = "<value omitted>"

// mostTrust is the longest set of certificates, in bytes.
const mostTrust = 1 << 20

// trustBundle is a set of certificates of authorities.
func trustBundle() *registry.Kind {
	k := row.Of[bundle, certificatesv1beta1.ClusterTrustBundleList](certificatesv1beta1.SchemeGroupVersion, "clustertrustbundles")
	k.NeedsRevision, k.Feature = true, featureTrustBundle
	k.NameIsValid = func(string, bool) []string { return nil } // the signer decides
	k.ValidateCreate = typed.Check(func(b *bundle) field.ErrorList { return validateBundle(b, nil) })
	k.ValidateUpdate = typed.CheckChange(validateBundle)
	k.SelectableFields = typed.Get(func(b *bundle) fields.Set { return fields.Set{"spec.signerName": b.Spec.SignerName} })
	k.Columns = []metav1.TableColumnDefinition{column.Name(), column.String("SignerName", certificatesv1beta1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"])}
	k.Cells = typed.Get(func(b *bundle) []any { return []any{b.Name, column.Or(b.Spec.SignerName, column.None)} })
	return k
}

func validateBundle(b, old *bundle) field.ErrorList {
	errs := check.Each(check.TrustBundleName(b.Name, b.Spec.SignerName), b.Name, field.NewPath("metadata", "name"))
	path := field.NewPath("spec")
	if b.Spec.SignerName != "" {
		errs = append(errs, check.Signer(b.Spec.SignerName, path.Child("signerName"))...)
	}
	if old == nil || b.Spec.TrustBundle != old.Spec.TrustBundle {
		errs = append(errs, validateAnchors(b.Spec.TrustBundle, path.Child("trustBundle"))...)
	}
	if old != nil && b.Spec.SignerName != old.Spec.SignerName {
		errs = append(errs, immutable(path.Child("signerName"), b.Spec.SignerName)...)
	}
	return errs
}

// validateAnchors wants certificates of authorities in PEM, each once. What stands between the blocks is not looked at.
func validateAnchors(text string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	bad := func(format string, args ...any) {
		errs = append(errs, field.Invalid(path, omitted, fmt.Sprintf(format, args...)))
	}
	if len(text) > mostTrust {
		return field.ErrorList{field.TooLong(path, omitted, mostTrust)}
	}
	seen, order := map[string][]int{}, []string{}
	rest := []byte(text)
	n := 0
	for ; ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			bad("entry %d has bad block type: %v", n, block.Type)
			continue
		}
		if len(block.Headers) > 0 {
			bad("entry %d has PEM block headers", n)
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			bad("entry %d does not parse as X.509", n)
			continue
		}
		if !certificate.IsCA {
			bad("entry %d does not have the CA bit set", n)
		}
		key := string(block.Bytes)
		if seen[key] == nil {
			order = append(order, key)
		}
		seen[key] = append(seen[key], n)
	}
	if n == 0 {
		bad("at least one trust anchor must be provided")
	}
	for _, key := range order {
		if at := seen[key]; len(at) > 1 {
			bad("duplicate trust anchor (indices %v)", at)
		}
	}
	return errs
}
