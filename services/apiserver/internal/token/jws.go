// Package token issues and verifies the tokens of service accounts: JWTs signed with RS256 or ES256.
package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

var encoding = base64.RawURLEncoding

// maxToken is the largest token that is looked at, in bytes.
const maxToken = 16 << 10

// header is that of a JWS.
type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
}

// keyID names a public key: the hash of its DER form.
func keyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("service-account key: %w", err)
	}
	sum := sha256.Sum256(der)
	return encoding.EncodeToString(sum[:]), nil
}

func algorithm(key crypto.PublicKey) (string, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return "RS256", nil
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return "ES256", nil
		}
	}
	return "", fmt.Errorf("service-account key: %T is neither RSA nor ECDSA P-256", key)
}

// sign returns the compact form of the claims' JWS.
func sign(key crypto.Signer, claims any) (string, error) {
	alg, err := algorithm(key.Public())
	if err != nil {
		return "", err
	}
	id, err := keyID(key.Public())
	if err != nil {
		return "", err
	}
	head, err := json.Marshal(header{alg, id})
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed := encoding.EncodeToString(head) + "." + encoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(signed))
	signature, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	if alg == "ES256" {
		if signature, err = fixed(signature); err != nil {
			return "", err
		}
	}
	return signed + "." + encoding.EncodeToString(signature), nil
}

// unverified decodes a token's claims without a look at its signature: to find out whose it claims to be.
func unverified(token string, claims any) error {
	if len(token) > maxToken {
		return errors.New("the token is too long")
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("the token has not three parts")
	}
	body, err := encoding.DecodeString(parts[1])
	if err != nil {
		return fmt.Errorf("the token's claims: %w", err)
	}
	return json.Unmarshal(body, claims)
}

var errSignature = errors.New("go-jose/go-jose: error in cryptographic primitive") // Kubernetes' text

// open verifies a token's signature and decodes its claims.
func open(token string, keys map[string]crypto.PublicKey, claims any) error {
	if len(token) > maxToken {
		return errors.New("the token is too long")
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errors.New("the token has not three parts")
	}
	var head header
	raw, err := encoding.DecodeString(parts[0])
	if err == nil {
		err = json.Unmarshal(raw, &head)
	}
	if err != nil {
		return fmt.Errorf("the token's header: %w", err)
	}
	signature, err := encoding.DecodeString(parts[2])
	if err != nil {
		return fmt.Errorf("the token's signature: %w", err)
	}
	key := keys[head.KeyID]
	if key == nil {
		return errors.New("invalid signature, no keys found")
	}
	// The algorithm is the key's, whatever the token says.
	if alg, err := algorithm(key); err != nil || alg != head.Algorithm {
		return errors.New("the token's algorithm is not its key's")
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	switch k := key.(type) {
	case *rsa.PublicKey:
		if rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) != nil {
			return errSignature
		}
	case *ecdsa.PublicKey:
		if len(signature) != 64 || !ecdsa.Verify(k, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
			return errSignature
		}
	}
	body, err := encoding.DecodeString(parts[1])
	if err != nil {
		return fmt.Errorf("the token's claims: %w", err)
	}
	if err := json.Unmarshal(body, claims); err != nil {
		return fmt.Errorf("the token's claims: %w", err)
	}
	return nil
}
