package preview

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"fmt"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/row"
)

// The bounds of what is requested.
const (
	hourOfCertificate int32 = 60 * 60           // seconds
	dayOfCertificate  int32 = 24 * 60 * 60      // seconds
	mostOfCertificate int32 = 91 * 24 * 60 * 60 // seconds
	longestUID              = 128               // bytes
	longestKey              = 10 << 10          // bytes
)

func validatePodCertificate(r *podCertificate) field.ErrorList {
	s, path := &r.Spec, field.NewPath("spec")
	errs := check.Signer(s.SignerName, path.Child("signerName"))
	errs = append(errs, check.UserAnnotations(s.UnverifiedUserAnnotations, path.Child("unverifiedUserAnnotations"))...)
	errs = append(errs, check.Each(validation.NameIsDNSSubdomain(s.PodName, false), s.PodName, path.Child("podName"))...)
	errs = append(errs, validateUID(s.PodUID, path.Child("podUID"))...)
	errs = append(errs, check.Each(validation.NameIsDNSSubdomain(s.ServiceAccountName, false), s.ServiceAccountName, path.Child("serviceAccountName"))...)
	errs = append(errs, validateUID(s.ServiceAccountUID, path.Child("serviceAccountUID"))...)
	errs = append(errs, check.Each(validation.NameIsDNSSubdomain(string(s.NodeName), false), s.NodeName, path.Child("nodeName"))...)
	errs = append(errs, validateUID(s.NodeUID, path.Child("nodeUID"))...)
	errs = append(errs, validateLife(r, path.Child("maxExpirationSeconds"))...)
	return append(errs, validateKey(r, path)...)
}

func validateUID(uid types.UID, path *field.Path) field.ErrorList {
	switch {
	case uid == "":
		return field.ErrorList{field.Invalid(path, uid, "must not be empty")}
	case len(uid) > longestUID:
		return field.ErrorList{field.TooLong(path, uid, longestUID)}
	}
	return nil
}

func validateLife(r *podCertificate, path *field.Path) field.ErrorList {
	most := mostOfCertificate
	if check.OwnSigner(r.Spec.SignerName) {
		most = dayOfCertificate
	}
	if n := row.Deref(r.Spec.MaxExpirationSeconds); n < hourOfCertificate || n > most {
		return field.ErrorList{field.Invalid(path, n, fmt.Sprintf("must be in the range [%d, %d]", hourOfCertificate, most))}
	}
	return nil
}

// validateKey wants the public key of the pod in one of two forms, with a proof that the node has the private one.
func validateKey(r *podCertificate, path *field.Path) field.ErrorList {
	s := &r.Spec
	stub, pair := len(s.StubPKCS10Request) > 0, len(s.PKIXPublicKey) > 0 && len(s.ProofOfPossession) > 0
	half := len(s.PKIXPublicKey) > 0 || len(s.ProofOfPossession) > 0
	switch {
	case stub && !half:
		return validateStub(s.StubPKCS10Request, path.Child("stubPKCS10Request"))
	case pair && !stub:
		return validatePair(r, path)
	}
	return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set")}
}

func validateStub(der []byte, path *field.Path) field.ErrorList {
	if len(der) > longestKey {
		return field.ErrorList{field.TooLong(path, der, longestKey)}
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must be a valid PKCS#10 CSR")}
	}
	if err := request.CheckSignature(); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "invalid signature")}
	}
	return validateStrength(request.PublicKey, "P256, P384, or P521", path)
}

func validatePair(r *podCertificate, path *field.Path) field.ErrorList {
	at, proof := path.Child("pkixPublicKey"), path.Child("proofOfPossession")
	if len(r.Spec.PKIXPublicKey) > longestKey {
		return field.ErrorList{field.TooLong(at, r.Spec.PKIXPublicKey, longestKey)}
	}
	if len(r.Spec.ProofOfPossession) > longestKey {
		return field.ErrorList{field.TooLong(proof, r.Spec.ProofOfPossession, longestKey)}
	}
	key, err := x509.ParsePKIXPublicKey(r.Spec.PKIXPublicKey)
	if err != nil {
		return field.ErrorList{field.Invalid(at, r.Spec.PKIXPublicKey, "must be a valid PKIX-serialized public key")}
	}
	if errs := validateStrength(key, "P256 or P384", at); len(errs) > 0 {
		return errs
	}
	if !proves(key, []byte(r.Spec.PodUID), r.Spec.ProofOfPossession) {
		return field.ErrorList{field.Invalid(proof, field.OmitValueType{}, "could not verify proof-of-possession signature")}
	}
	return nil
}

// validateStrength wants a key of a kind that Kubernetes takes; curves names those that the text tells of.
func validateStrength(key crypto.PublicKey, curves string, path *field.Path) field.ErrorList {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() && k.Curve != elliptic.P384() && k.Curve != elliptic.P521() {
			return field.ErrorList{field.Invalid(path, "curve "+k.Params().Name, "elliptic public keys must use curve "+curves)}
		}
		return nil
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits != 3072 && bits != 4096 {
			return field.ErrorList{field.Invalid(path, fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")}
		}
		return nil
	}
	return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")}
}

// proves reports whether the signature is that of the data by the key.
func proves(key crypto.PublicKey, data, signature []byte) bool {
	digest := sha256.Sum256(data)
	switch k := key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(k, data, signature)
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, digest[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPSS(k, crypto.SHA256, digest[:], signature, nil) == nil
	}
	return false
}
