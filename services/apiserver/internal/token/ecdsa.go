package token

import (
	"encoding/asn1"
	"fmt"
	"math/big"
)

// fixed turns an ASN.1 signature into the two 32-byte numbers that a JWS holds.
func fixed(der []byte) ([]byte, error) {
	var s struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &s); err != nil {
		return nil, fmt.Errorf("sign a token: %w", err)
	}
	out := make([]byte, 64)
	s.R.FillBytes(out[:32])
	s.S.FillBytes(out[32:])
	return out, nil
}
