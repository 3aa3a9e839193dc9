package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"sync"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
)

// maxOthers bounds the issuers of distributed claims that are remembered.
const maxOthers = 32

// others are the issuers of claims that stand elsewhere.
type others struct {
	mu        sync.Mutex
	base      context.Context // of the provider's Run: keys are fetched as long as it lasts
	verifiers map[string]*gooidc.IDTokenVerifier
}

func (o *others) start(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.base, o.verifiers = ctx, map[string]*gooidc.IDTokenVerifier{}
}

// source is where a claim stands.
type source struct {
	Endpoint    string `json:"endpoint"`
	AccessToken string `json:"access_token"`
}

// expand fetches the claim with the groups where the token says that it stands elsewhere. Others are not looked for.
func (p *Provider) expand(ctx context.Context, c claims) error {
	name := p.ClaimMappings.Groups.Claim
	if _, there := c[name]; name == "" || there {
		return nil
	}
	var names map[string]string
	if raw, ok := c["_claim_names"]; !ok || json.Unmarshal(raw, &names) != nil || names[name] == "" {
		return nil
	}
	var sources map[string]source
	if raw, ok := c["_claim_sources"]; !ok || json.Unmarshal(raw, &sources) != nil {
		return errors.New("oidc: no claims sources")
	}
	from, ok := sources[names[name]]
	if !ok {
		return fmt.Errorf("oidc: claim source %q is missing", names[name])
	}
	if from.Endpoint == "" { // one that brings the claim with it is not read, as in Kubernetes
		return nil
	}
	value, err := p.distributed(ctx, name, from)
	if err != nil {
		return err
	}
	c[name] = value
	return nil
}

// distributed fetches a token that has the claim, and verifies it as one of its issuer.
func (p *Provider) distributed(ctx context.Context, name string, from source) (json.RawMessage, error) {
	text, contentType, err := p.fetch(ctx, "distributed claim JWT", from.Endpoint, from.AccessToken)
	if err != nil {
		return nil, fmt.Errorf("while getting distributed claim %q: %w", name, err)
	}
	if media, _, err := mime.ParseMediaType(contentType); contentType != "" && (err != nil || media != "application/jwt") {
		return nil, fmt.Errorf("expected Content-Type application/jwt, got %q", contentType)
	}
	token := string(text)
	verifier, err := p.other(ctx, issuer(token))
	if err != nil {
		return nil, fmt.Errorf("verifying untrusted issuer %s failed: %w", issuer(token), err)
	}
	c, err := p.verified(ctx, verifier, token)
	if err != nil {
		return nil, fmt.Errorf("verify distributed claim token: %w", err)
	}
	value, ok := c[name]
	if !ok {
		return nil, fmt.Errorf("jwt returned by distributed claim endpoint %q did not contain claim: %v", from.Endpoint, name)
	}
	return value, nil
}

// other returns what verifies the tokens of an issuer of distributed claims.
func (p *Provider) other(ctx context.Context, issuer string) (*gooidc.IDTokenVerifier, error) {
	if issuer == "" {
		return nil, errors.New("the distributed claim is not in a token")
	}
	if issuer == p.Issuer.URL {
		return p.verifier.Load(), nil
	}
	o := &p.others
	o.mu.Lock()
	known, base := o.verifiers[issuer], o.base
	o.mu.Unlock()
	if known != nil {
		return known, nil
	}
	// The keys outlive this request; finding them must not.
	lasting, stop := context.WithCancel(base)
	defer context.AfterFunc(ctx, stop)()
	found, err := p.find(lasting, issuer, "")
	if err != nil {
		stop()
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.verifiers) >= maxOthers {
		clear(o.verifiers)
	}
	o.verifiers[issuer] = found
	return found, nil
}
