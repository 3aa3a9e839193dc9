package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/base64"
	"encoding/binary"
)

// issuerDocument is the OpenID provider metadata (OpenID Connect Discovery 1.0, section 3), in the order in which Kubernetes writes it.
type issuerDocument struct {
	Issuer     string   `json:"issuer"`
	Keys       string   `json:"jwks_uri"`
	Responses  []string `json:"response_types_supported"`
	Subjects   []string `json:"subject_types_supported"`
	Algorithms []string `json:"id_token_signing_alg_values_supported"`
}

// webKey is a public key as RFC 7517 has it, in the order in which Kubernetes writes it.
type webKey struct {
	Use       string `json:"use"`
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Curve     string `json:"crv,omitempty"`
	Algorithm string `json:"alg"`
	X         string `json:"x,omitempty"`
	Y         string `json:"y,omitempty"`
	N         string `json:"n,omitempty"`
	E         string `json:"e,omitempty"`
}

func jwk(id string, key crypto.PublicKey) *webKey {
	b64 := base64.RawURLEncoding.EncodeToString
	switch k := key.(type) {
	case *rsa.PublicKey:
		e := binary.BigEndian.AppendUint32(nil, uint32(k.E))
		for len(e) > 1 && e[0] == 0 {
			e = e[1:]
		}
		return &webKey{Use: "sig", Type: "RSA", ID: id, Algorithm: "RS256", N: b64(k.N.Bytes()), E: b64(e)}
	case *ecdsa.PublicKey:
		alg, err := Algorithm(k)
		if err != nil {
			return nil
		}
		x, y := make([]byte, width(k)), make([]byte, width(k))
		k.X.FillBytes(x)
		k.Y.FillBytes(y)
		return &webKey{Use: "sig", Type: "EC", ID: id, Curve: k.Curve.Params().Name, Algorithm: alg, X: b64(x), Y: b64(y)}
	}
	return nil
}
