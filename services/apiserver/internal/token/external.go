package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxKeyID is the longest name of a key.
const maxKeyID = 1024

// signed has a token made of the claims, by the key or by who signs in its place.
func (a *Authority) signed(ctx context.Context, c claims) (string, error) {
	if a.External == nil {
		return sign(a.Key, c)
	}
	body, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	middle := encoding.EncodeToString(body)
	head, signature, err := a.External.Sign(ctx, middle, func(ctx context.Context, head, signature string) error {
		if err := a.checkSigned(ctx, head, middle, signature); err != nil {
			return fmt.Errorf("while validating header: %w", err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return head + "." + middle + "." + signature, nil
}

// checkSigned says what is wrong with what a signer has answered. Nothing but what is asked for may be in a header: others act on it.
func (a *Authority) checkSigned(ctx context.Context, head, middle, signature string) error {
	raw, err := encoding.DecodeString(head)
	if err != nil {
		return fmt.Errorf("while unwrapping header: %w", err)
	}
	var h struct {
		header
		Type string `json:"typ"`
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&h); err != nil {
		return fmt.Errorf("while parsing header JSON: %w", err)
	}
	switch {
	case decoder.More():
		return errors.New("more than one header")
	case h.Type != "JWT":
		return errors.New("bad type")
	case h.KeyID == "":
		return errors.New("key id missing")
	case len(h.KeyID) > maxKeyID:
		return errors.New("key id longer than 1 kb")
	}
	switch h.Algorithm {
	case "RS256", "ES256", "ES384", "ES512":
	default:
		return fmt.Errorf("bad signing algorithm %q", h.Algorithm)
	}
	if signature == "" {
		return errors.New("empty signature returned")
	}
	keys := a.source.Find(ctx, h.KeyID)
	for _, k := range keys {
		if k.Hidden { // it is for tokens that were issued formerly
			return fmt.Errorf("key used for signing JWT (kid: %s) is excluded from OIDC discovery docs", h.KeyID)
		}
	}
	// Whose key nobody has told yet may be told of later; what a known key did not sign nobody will ever take.
	if len(keys) == 0 {
		return nil
	}
	return open(head+"."+middle+"."+signature, func(string) []Key { return keys }, &claims{})
}
