package token

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"
)

// TestKindsOfKeys signs with each kind of keys that Kubernetes knows, verifies that, and tells others of the key.
func TestKindsOfKeys(t *testing.T) {
	t.Parallel()
	must := func(k crypto.Signer, err error) crypto.Signer {
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	for alg, key := range map[string]crypto.Signer{
		"RS256": must(rsa.GenerateKey(rand.Reader, 2048)),
		"ES256": must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)),
		"ES384": must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)),
		"ES512": must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader)),
	} {
		a, err := New(Config{Issuers: []string{issuer}, Key: key, More: []crypto.PublicKey{key.Public()}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := a.signed(t.Context(), claims{Issuer: issuer, Subject: "me"})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := a.claimed(t.Context(), text); err != nil || c.(*claims).Subject != "me" {
			t.Errorf("%s: %v, %v", alg, c, err)
		}
		parts := strings.Split(text, ".")
		nameless := encoding.EncodeToString([]byte(`{"alg":"` + alg + `"}`))
		if err := open(nameless+"."+parts[1]+"."+parts[2], func(id string) []Key { return a.source.Find(t.Context(), id) }, &claims{}); err == nil || !strings.Contains(err.Error(), "primitive") {
			t.Errorf("%s: another header: %v", alg, err) // the key was found, and did not sign this
		}
		keys, _, err := a.Document("/openid/v1/jwks", "", "")
		if err != nil || strings.Count(string(keys), `"kid"`) != 1 || !strings.Contains(string(keys), `"alg":"`+alg+`"`) {
			t.Errorf("%s: told %s, %v", alg, keys, err)
		}
		about, _, err := a.Document("/.well-known/openid-configuration", "", "")
		if err != nil || !strings.Contains(string(about), `["`+alg+`"]`) {
			t.Errorf("%s: told %s, %v", alg, about, err)
		}
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Key: other}); err == nil {
		t.Error("a key is taken with which nothing can be signed")
	}
	if keys := (fixedKeys{{ID: "a"}, {ID: "b"}, {ID: "a"}}); len(keys.Find(context.Background(), "a")) != 2 || len(keys.Find(context.Background(), "")) != 3 || len(keys.Find(context.Background(), "c")) != 0 {
		t.Error("keys are not found by their names")
	}
}
