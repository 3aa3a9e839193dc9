package plugin

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

// signerPermitted reports whether the user may do something for a signer: by its name, or for all of its domain.
func signerPermitted(ctx context.Context, authorizer authz.Authorizer, user *authn.User, verb, signer string) bool {
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		decision, _, err := authorizer.Authorize(ctx, &authz.Attributes{
			User: user, Verb: verb, Group: certificatesv1.GroupName, Version: "*", Resource: "signers", Name: name,
		})
		if err == nil && decision == authz.Allow {
			return true
		}
	}
	return false
}

func signingRequest(a *admission.Attributes, subresource string) bool {
	return a.Operation == admission.Update && a.Subresource == subresource && a.Is(certificatesv1.GroupName, "certificatesigningrequests")
}

// CertificateApproval lets only those approve signing requests who may approve for the signer.
type CertificateApproval struct{ Authorizer authz.Authorizer }

// Name implements admission.Plugin.
func (*CertificateApproval) Name() string { return "CertificateApproval" }

// Handles implements admission.Plugin.
func (*CertificateApproval) Handles(a *admission.Attributes) bool {
	return signingRequest(a, "approval")
}

// Validate implements admission.Validator.
func (p *CertificateApproval) Validate(ctx context.Context, a *admission.Attributes) error {
	// The old object's signer counts: the subresource cannot change it.
	csr, ok := a.Old.(*certificatesv1.CertificateSigningRequest)
	if !ok || signerPermitted(ctx, p.Authorizer, a.User, "approve", csr.Spec.SignerName) {
		return nil
	}
	return a.Forbidden(fmt.Errorf("user not permitted to approve requests with signerName %q", csr.Spec.SignerName))
}

// CertificateSigning lets only those write certificates into signing requests who may sign as the signer.
type CertificateSigning struct{ Authorizer authz.Authorizer }

// Name implements admission.Plugin.
func (*CertificateSigning) Name() string { return "CertificateSigning" }

// Handles implements admission.Plugin.
func (*CertificateSigning) Handles(a *admission.Attributes) bool { return signingRequest(a, "status") }

// Validate implements admission.Validator.
func (p *CertificateSigning) Validate(ctx context.Context, a *admission.Attributes) error {
	old, ok := a.Old.(*certificatesv1.CertificateSigningRequest)
	csr, okNow := a.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || !okNow {
		return nil
	}
	if slices.Equal(csr.Status.Certificate, old.Status.Certificate) && equality.Semantic.DeepEqual(csr.Status.Conditions, old.Status.Conditions) {
		return nil
	}
	if signerPermitted(ctx, p.Authorizer, a.User, "sign", old.Spec.SignerName) {
		return nil
	}
	return a.Forbidden(fmt.Errorf("user not permitted to sign requests with signerName %q", old.Spec.SignerName))
}

// CertificateSubjectRestriction refuses requests for client certificates of the group that may do everything.
type CertificateSubjectRestriction struct{}

// Name implements admission.Plugin.
func (CertificateSubjectRestriction) Name() string { return "CertificateSubjectRestriction" }

// Handles implements admission.Plugin.
func (CertificateSubjectRestriction) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Create && a.Subresource == "" && a.Is(certificatesv1.GroupName, "certificatesigningrequests")
}

// Validate implements admission.Validator.
func (CertificateSubjectRestriction) Validate(_ context.Context, a *admission.Attributes) error {
	csr, ok := a.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	request, err := certificateRequest(csr)
	if err != nil {
		return a.Forbidden(fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(request.Subject.Organization, authn.MastersGroup) {
		return a.Forbidden(fmt.Errorf("use of %s signer with %s group is not allowed", certificatesv1.KubeAPIServerClientSignerName, authn.MastersGroup))
	}
	return nil
}

// certificateRequest reads what is to be signed.
func certificateRequest(csr *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// restrictSigning keeps a node from asking the signers of node agents for the certificate of another node.
func restrictSigning(a *admission.Attributes, node string) error {
	csr, ok := a.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || a.Operation != admission.Create || csr.Spec.SignerName != certificatesv1.KubeletServingSignerName && csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	request, err := certificateRequest(csr)
	if err != nil {
		return a.Forbidden(fmt.Errorf("unable to parse csr: %w", err))
	}
	if name := authn.NodeUserPrefix + node; request.Subject.CommonName != name {
		return a.Forbidden(fmt.Errorf("can only create a node CSR with CN=%s", name))
	}
	return nil
}

// ClusterTrustBundleAttest lets only those write a signer's trust anchors who may attest for the signer.
type ClusterTrustBundleAttest struct{ Authorizer authz.Authorizer }

// Name implements admission.Plugin.
func (*ClusterTrustBundleAttest) Name() string { return "ClusterTrustBundleAttest" }

// Handles implements admission.Plugin.
func (*ClusterTrustBundleAttest) Handles(a *admission.Attributes) bool {
	return (a.Operation == admission.Create || a.Operation == admission.Update) && a.Is(certificatesv1.GroupName, "clustertrustbundles")
}

// Validate implements admission.Validator.
func (p *ClusterTrustBundleAttest) Validate(ctx context.Context, a *admission.Attributes) error {
	signer := bundleSigner(a.Object)
	if signer == "" || signerPermitted(ctx, p.Authorizer, a.User, "attest", signer) {
		return nil
	}
	return a.Forbidden(fmt.Errorf("user not permitted to attest for signerName %q", signer))
}

func bundleSigner(obj any) string {
	switch b := obj.(type) {
	case *certificatesv1beta1.ClusterTrustBundle:
		return b.Spec.SignerName
	case *certificatesv1alpha1.ClusterTrustBundle:
		return b.Spec.SignerName
	}
	return ""
}
