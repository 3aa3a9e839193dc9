// Package token issues and verifies the tokens of service accounts: JWTs signed with RS256, ES256, ES384 or ES512, here or by a program of its own.
package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // of ES384 and ES512
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

// Algorithm is how tokens of a key are signed: RS256, ES256, ES384 or ES512.
func Algorithm(key crypto.PublicKey) (string, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return "RS256", nil
	case *ecdsa.PublicKey:
		if alg, ok := map[elliptic.Curve]string{elliptic.P256(): "ES256", elliptic.P384(): "ES384", elliptic.P521(): "ES512"}[k.Curve]; ok {
			return alg, nil
		}
	}
	return "", fmt.Errorf("service-account key: %T is neither RSA nor ECDSA P-256, P-384 or P-521", key)
}

// digest is what is signed of a text by an algorithm.
func digest(alg, text string) (crypto.Hash, []byte) {
	hash := crypto.SHA256
	switch alg {
	case "ES384":
		hash = crypto.SHA384
	case "ES512":
		hash = crypto.SHA512
	}
	h := hash.New()
	h.Write([]byte(text))
	return hash, h.Sum(nil)
}

// sign returns the compact form of the claims' JWS.
func sign(key crypto.Signer, claims any) (string, error) {
	alg, err := Algorithm(key.Public())
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
	hash, sum := digest(alg, signed)
	signature, err := key.Sign(rand.Reader, sum, hash)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	if k, ok := key.Public().(*ecdsa.PublicKey); ok {
		if signature, err = fixed(signature, width(k)); err != nil {
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

var (
	errSignature = errors.New("go-jose/go-jose: error in cryptographic primitive") // Kubernetes' text
	errAlgorithm = errors.New("the token's algorithm is not its key's")
)

// malformed is what is wrong with a token that cannot be read, before any key is asked.
type malformed struct{ error }

// open verifies a token's signature by one of the keys that find has for its ID, and decodes its claims. It fails with malformed where the token cannot be read.
func open(token string, find func(id string) []Key, claims any) error {
	if len(token) > maxToken {
		return malformed{errors.New("the token is too long")}
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return malformed{errors.New("the token has not three parts")}
	}
	var head header
	raw, err := encoding.DecodeString(parts[0])
	if err == nil {
		err = json.Unmarshal(raw, &head)
	}
	if err != nil {
		return malformed{fmt.Errorf("the token's header: %w", err)}
	}
	signature, err := encoding.DecodeString(parts[2])
	if err != nil {
		return malformed{fmt.Errorf("the token's signature: %w", err)}
	}
	keys := find(head.KeyID)
	if len(keys) == 0 {
		return errors.New("invalid signature, no keys found")
	}
	for _, key := range keys {
		if err = verify(key.Public, head.Algorithm, parts[0]+"."+parts[1], signature); err == nil {
			break
		}
	}
	if err != nil {
		return err
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

// verify checks a signature. The algorithm is the key's, whatever the token says.
func verify(key crypto.PublicKey, alg, text string, signature []byte) error {
	if own, err := Algorithm(key); err != nil || own != alg {
		return errAlgorithm
	}
	hash, sum := digest(alg, text)
	switch k := key.(type) {
	case *rsa.PublicKey:
		if rsa.VerifyPKCS1v15(k, hash, sum, signature) != nil {
			return errSignature
		}
	case *ecdsa.PublicKey:
		if n := width(k); len(signature) != 2*n || !ecdsa.Verify(k, sum, new(big.Int).SetBytes(signature[:n]), new(big.Int).SetBytes(signature[n:])) {
			return errSignature
		}
	}
	return nil
}
