package token

import (
	"crypto/ecdsa"
	"encoding/asn1"
	"fmt"
	"math/big"
)

// width is how many bytes each number of a key's curve has.
func width(key *ecdsa.PublicKey) int { return (key.Curve.Params().BitSize + 7) / 8 }

// fixed turns an ASN.1 signature into the two numbers of a width that a JWS holds.
func fixed(der []byte, n int) ([]byte, error) {
	var s struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &s); err != nil {
		return nil, fmt.Errorf("sign a token: %w", err)
	}
	out := make([]byte, 2*n)
	s.R.FillBytes(out[:n])
	s.S.FillBytes(out[n:])
	return out, nil
}
