package signer

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	externaljwt "k8s.io/externaljwt/apis/v1"

	"howdah.dev/services/apiserver/internal/token"
)

// maxID is the longest name of a key.
const maxID = 1024

// keyset is what a signer says of its keys.
type keyset struct {
	all     []token.Key
	version uint64
	hint    time.Duration // for how long they are good as they are
	from    time.Time     // as of when the signer knows them
	until   time.Time     // when they are to be asked for again
}

// read decodes an answer. It is good as a whole or not at all: with some of the keys, tokens would be refused that are good.
func read(answer *externaljwt.FetchKeysResponse) (keyset, error) {
	var k keyset
	if answer.GetRefreshHintSeconds() <= 0 {
		return k, fmt.Errorf("found invalid refresh hint (%ds)", answer.GetRefreshHintSeconds())
	}
	if len(answer.GetKeys()) == 0 {
		return k, errors.New("found no keys")
	}
	if err := answer.GetDataTimestamp().CheckValid(); err != nil {
		return k, fmt.Errorf("invalid data timestamp: %w", err)
	}
	k.from = answer.GetDataTimestamp().AsTime()
	const longest = 1 << 32 // a number of seconds that a Duration holds
	k.hint = time.Duration(min(answer.GetRefreshHintSeconds(), longest)) * time.Second
	for _, said := range answer.GetKeys() {
		if id := said.GetKeyId(); id == "" || len(id) > maxID {
			return k, fmt.Errorf("found invalid public key id %.40q", id)
		}
		if len(said.GetKey()) == 0 {
			return k, errors.New("found empty public key")
		}
		public, err := x509.ParsePKIXPublicKey(said.GetKey())
		if err == nil {
			_, err = token.Algorithm(public)
		}
		if err != nil {
			return k, fmt.Errorf("while parsing external public keys: %w", err)
		}
		k.all = append(k.all, token.Key{ID: said.GetKeyId(), Public: public, Hidden: said.GetExcludeFromOidcDiscovery()})
	}
	return k, nil
}

// same reports whether the keys are the same: what was verified by them is verified still.
func (k *keyset) same(o *keyset) bool {
	if len(k.all) != len(o.all) {
		return false
	}
	for i := range k.all {
		a, b := k.all[i], o.all[i]
		if a.ID != b.ID || a.Hidden != b.Hidden || !a.Public.(interface{ Equal(crypto.PublicKey) bool }).Equal(b.Public) {
			return false
		}
	}
	return true
}
