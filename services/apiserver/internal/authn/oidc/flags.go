package oidc

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/apiserver/pkg/apis/apiserver"
)

// Flags have the meaning of Kubernetes' --oidc flags.
type Flags struct {
	IssuerURL, ClientID string
	// UsernameClaim is sub where it is empty. UsernamePrefix "-" is none; empty is "<issuer>#", but for the claim email, which has none.
	UsernameClaim, UsernamePrefix string
	GroupsClaim, GroupsPrefix     string
	// CAFile has the provider's authorities; empty takes the system's.
	CAFile string
	// SigningAlgs is RS256 where it is empty.
	SigningAlgs []string
	// RequiredClaims are claims, all strings, that a token must have.
	RequiredClaims map[string]string
}

// algorithms are those that a provider may sign with: none, and those with shared keys, are not among them.
var algorithms = []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512"}

// Config is what the flags come to, or what is wrong with them. What is wrong with the issuer itself is left to New.
func (f Flags) Config() (Config, error) {
	var problems []error
	if f.IssuerURL == "" || f.ClientID == "" {
		problems = append(problems, errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"))
	}
	if f.UsernameClaim == "" {
		f.UsernameClaim = "sub"
	}
	if f.GroupsPrefix == "-" {
		f.GroupsPrefix = ""
	}
	switch {
	case f.UsernamePrefix == "-":
		f.UsernamePrefix = ""
	case f.UsernamePrefix == "" && f.UsernameClaim != "email":
		f.UsernamePrefix = f.IssuerURL + "#"
	}
	if len(f.SigningAlgs) == 0 {
		f.SigningAlgs = []string{"RS256"}
	}
	for _, alg := range f.SigningAlgs {
		if !slices.Contains(algorithms, alg) {
			problems = append(problems, fmt.Errorf("oidc: unsupported signing alg: %q", alg))
		}
	}
	cfg := Config{SigningAlgs: f.SigningAlgs}
	if f.CAFile != "" {
		pem, err := os.ReadFile(f.CAFile)
		if err != nil {
			problems = append(problems, err)
		}
		cfg.Issuer.CertificateAuthority = string(pem)
	}
	cfg.Issuer.URL, cfg.Issuer.Audiences = f.IssuerURL, []string{f.ClientID}
	cfg.ClaimMappings.Username = apiserver.PrefixedClaimOrExpression{Claim: f.UsernameClaim, Prefix: &f.UsernamePrefix}
	if f.GroupsClaim != "" {
		cfg.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: f.GroupsClaim, Prefix: &f.GroupsPrefix}
	}
	for _, claim := range slices.Sorted(maps.Keys(f.RequiredClaims)) {
		cfg.ClaimValidationRules = append(cfg.ClaimValidationRules, apiserver.ClaimValidationRule{Claim: claim, RequiredValue: f.RequiredClaims[claim]})
	}
	return cfg, errors.Join(problems...)
}
