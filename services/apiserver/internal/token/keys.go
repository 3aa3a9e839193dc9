package token

import (
	"context"
	"crypto"
	"time"
)

// Key verifies tokens.
type Key struct {
	ID     string
	Public crypto.PublicKey
	// Hidden keys are not told to others: they verify tokens of the past.
	Hidden bool
}

// Keys are those that verify tokens.
type Keys interface {
	// Find returns the keys of an ID, all where it is "".
	Find(ctx context.Context, id string) []Key
	// Known returns all, and a number that is another one when they are others.
	Known() ([]Key, uint64)
	// Fresh is for how long others may keep them.
	Fresh() time.Duration
}

// Signer signs tokens.
type Signer interface {
	// Sign takes the middle part of a token and returns the first and the last, if check finds nothing wrong with them.
	Sign(ctx context.Context, claims string, check func(ctx context.Context, header, signature string) error) (header, signature string, err error)
	// MaxLifetime bounds what is signed; 0 is not known yet.
	MaxLifetime() time.Duration
}

// External signs tokens in place of a key, and has the keys that verify them.
type External interface {
	Keys
	Signer
}

// fixedKeys never change.
type fixedKeys []Key

// fix returns keys by their hashes, each once.
func fix(all []crypto.PublicKey) (fixedKeys, error) {
	var keys fixedKeys
	known := map[string]bool{}
	for _, k := range all {
		if _, err := Algorithm(k); err != nil {
			return nil, err
		}
		id, err := keyID(k)
		if err != nil {
			return nil, err
		}
		if !known[id] {
			known[id], keys = true, append(keys, Key{ID: id, Public: k})
		}
	}
	return keys, nil
}

// Find implements Keys.
func (f fixedKeys) Find(_ context.Context, id string) []Key { return With(f, id) }

// Known implements Keys.
func (f fixedKeys) Known() ([]Key, uint64) { return f, 0 }

// Fresh implements Keys: an hour, as in Kubernetes.
func (f fixedKeys) Fresh() time.Duration { return time.Hour }

// With returns those of an ID, all where it is "".
func With(keys []Key, id string) []Key {
	if id == "" {
		return keys
	}
	var found []Key
	for _, k := range keys {
		if k.ID == id {
			found = append(found, k)
		}
	}
	return found
}
