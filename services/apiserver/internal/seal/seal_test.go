package seal

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/clock"
)

// secretOf is a key of n bytes, as a configuration has it.
func secretOf(n int, fill byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, n))
}

// config is a configuration with one entry.
func config(resources string, providers ...string) string {
	return "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [" + resources + "]\n  providers:\n  - " +
		strings.Join(providers, "\n  - ") + "\n"
}

func keyOf(algorithm, name string, size int, fill byte) string {
	return fmt.Sprintf("%s: {keys: [{name: %s, secret: %s}]}", algorithm, name, secretOf(size, fill))
}

func parse(t testing.TB, text string) *Set {
	t.Helper()
	set, err := Parse([]byte(text), clock.RealClock{}, NewMetrics(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

const storeKey = "/core/secrets/default/a"

func TestProviders(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ provider, prefix string }{
		{keyOf("aesgcm", "k", 16, 1), "k8s:enc:aesgcm:v1:k:"},
		{keyOf("aesgcm", "k", 32, 1), "k8s:enc:aesgcm:v1:k:"},
		{keyOf("aescbc", "k", 24, 1), "k8s:enc:aescbc:v1:k:"},
		{keyOf("aescbc", "k", 32, 1), "k8s:enc:aescbc:v1:k:"},
		{keyOf("secretbox", "k", 32, 1), "k8s:enc:secretbox:v1:k:"},
	} {
		t.Run(tt.provider, func(t *testing.T) {
			t.Parallel()
			set := parse(t, config("secrets", tt.provider))
			for size := range 70 {
				plain := bytes.Repeat([]byte("secret "), size)
				stored, err := set.Seal(t.Context(), storeKey, plain)
				if err != nil || !bytes.HasPrefix(stored, []byte(tt.prefix)) || !Sealed(stored) {
					t.Fatalf("%q %v", stored, err)
				}
				if size > 0 && bytes.Contains(stored, plain) {
					t.Fatal("the plain text is stored")
				}
				got, stale, err := set.Open(t.Context(), storeKey, stored)
				if err != nil || stale || !bytes.Equal(got, plain) {
					t.Fatalf("got %q, stale %v, %v", got, stale, err)
				}
			}
			stored, _ := set.Seal(t.Context(), storeKey, []byte("plain"))
			again, _ := set.Seal(t.Context(), storeKey, []byte("plain"))
			if bytes.Equal(stored, again) {
				t.Error("two seals of the same are the same")
			}
			if _, _, err := set.Open(t.Context(), "/core/secrets/default/b", stored); err == nil {
				t.Error("a value opens under another key")
			}
			for i := len(tt.prefix); i < len(stored); i++ {
				damaged := bytes.Clone(stored)
				damaged[i] ^= 1
				if _, _, err := set.Open(t.Context(), storeKey, damaged); err == nil {
					t.Fatalf("byte %d was changed, and nobody noticed", i)
				}
				if _, _, err := set.Open(t.Context(), storeKey, stored[:i]); err == nil {
					t.Fatalf("cut off at %d, and nobody noticed", i)
				}
			}
			other := parse(t, config("secrets", strings.Replace(tt.provider, "AQEB", "AgIC", 1)))
			if _, _, err := other.Open(t.Context(), storeKey, stored); err == nil {
				t.Error("it opens with another secret")
			}
		})
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	text := `{"kind":"EncryptionConfiguration","apiVersion":"apiserver.config.k8s.io/v1","resources":[
		{"resources":["events"],"providers":[{"identity":{}}]},
		{"resources":["secrets","pandas.bears.example"],"providers":[{"secretbox":{"keys":[{"name":"first","secret":"` + secretOf(32, 1) + `"}]}}]},
		{"resources":["*.apps"],"providers":[{"secretbox":{"keys":[{"name":"apps","secret":"` + secretOf(32, 2) + `"}]}}]},
		{"resources":["*."],"providers":[{"secretbox":{"keys":[{"name":"core","secret":"` + secretOf(32, 3) + `"}]}}]},
		{"resources":["*.*"],"providers":[{"secretbox":{"keys":[{"name":"rest","secret":"` + secretOf(32, 4) + `"}]}}]}]}`
	set := parse(t, text)
	for key, want := range map[string]string{
		"/core/events/ns/e":                     "",
		"/core/secrets/ns/a":                    "first",
		"/bears.example/pandas/ns/p":            "first",
		"/apps/deployments/ns/d":                "apps",
		"/core/pods/ns/p":                       "core",
		"/batch/jobs/ns/j":                      "rest",
		"/bears.example/polar/ns/p":             "rest",
		"/howdah/reservation/clusterips/10.0.0": "",
		"oddity":                                "",
	} {
		stored, err := set.Seal(t.Context(), key, []byte("value"))
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && string(stored) != "value" || want != "" && !bytes.HasPrefix(stored, []byte("k8s:enc:secretbox:v1:"+want+":")) {
			t.Errorf("%s is stored as %q, want key %q", key, stored, want)
		}
	}
	if parse(t, config("secrets", keyOf("secretbox", "k", 32, 1))).Covers("/core/pods/ns/p") {
		t.Error("pods are covered by secrets")
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	older, newer := keyOf("aescbc", "old", 32, 1), keyOf("aesgcm", "new", 32, 2)
	before, both, after := parse(t, config("secrets", older, "identity: {}")), parse(t, config("secrets", newer, older, "identity: {}")), parse(t, config("secrets", newer))
	stored, _ := before.Seal(t.Context(), storeKey, []byte("value"))
	for _, tt := range []struct {
		name   string
		set    *Set
		stored string
		stale  bool
		err    string
	}{
		{"written by the first", before, string(stored), false, ""},
		{"written by an older one", both, string(stored), true, ""},
		{"written in plain", before, "value", true, ""},
		{"its provider is gone", after, string(stored), false, `unable to transform key "/core/secrets/default/a": no matching prefix found`},
		{"plain where identity is not allowed", after, "value", false, `unable to transform key "/core/secrets/default/a": no matching prefix found`},
		{"encrypted where nothing is configured", nil, string(stored), false, `unable to transform key "/core/secrets/default/a": no matching prefix found`},
		{"plain where nothing is configured", nil, "value", false, ""},
		{"identity first", parse(t, config("secrets", "identity: {}", older)), string(stored), true, ""},
	} {
		plain, stale, err := tt.set.Open(t.Context(), storeKey, []byte(tt.stored))
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err != nil || string(plain) != "value" || stale != tt.stale {
			t.Errorf("%s: %q, stale %v, %v", tt.name, plain, stale, err)
		}
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	t.Parallel()
	const secret = "c2VjcmV0IGlzIHNlY3VyZQ=" // not base64, and never to be told
	for name, tt := range map[string]struct{ text, want string }{
		"empty":             {"", "configuration file is empty"},
		"another kind":      {"kind: Pod\napiVersion: v1\n", "no kind \"Pod\" is registered"},
		"unknown field":     {config("secrets", "identity: {}") + "nonsense: 1\n", "unknown field \"nonsense\""},
		"no resources":      {"kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n", "resources: Required value"},
		"two providers":     {config("secrets", "identity: {}\n    secretbox: {keys: []}"), "more than one provider"},
		"empty provider":    {config("secrets", "{}"), "provider does not contain any of the expected providers"},
		"overlap":           {config("'*.*', secrets", "identity: {}"), "overlap"},
		"short key":         {config("secrets", keyOf("secretbox", "k", 16, 1)), "secret is not of the expected length"},
		"key is no base64":  {config("secrets", "aesgcm: {keys: [{name: k, secret: '"+secret+"'}]}"), "secrets must be base64 encoded"},
		"key without name":  {config("secrets", "aesgcm: {keys: [{secret: "+secretOf(32, 1)+"}]}"), "name"},
		"kms v1":            {config("secrets", "kms: {name: a, endpoint: 'unix:///x'}"), "KMS v1 is not supported"},
		"kms over the net":  {config("secrets", "kms: {apiVersion: v2, name: a, endpoint: 'tcp://x'}"), "unsupported scheme"},
		"kms name repeated": {config("secrets", "kms: {apiVersion: v2, name: a, endpoint: 'unix:///x'}", "kms: {apiVersion: v2, name: a, endpoint: 'unix:///x'}"), "duplicate KMS provider name"},
	} {
		_, err := Parse([]byte(tt.text), clock.RealClock{}, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error tells the secret: %v", name, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	set, err := Parse([]byte(config("secrets", keyOf("aesgcm", "a", 32, 1), keyOf("aescbc", "b", 32, 1), keyOf("secretbox", "c", 32, 1))), clock.RealClock{}, nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, algorithm := range []string{"aesgcm:v1:a:", "aescbc:v1:b:", "secretbox:v1:c:"} {
		f.Add([]byte(marker+algorithm), 40)
		f.Add([]byte(marker+algorithm+strings.Repeat("x", 100)), 3)
	}
	f.Fuzz(func(t *testing.T, stored []byte, n int) {
		if plain, _, err := set.Open(t.Context(), storeKey, stored); err == nil {
			t.Fatalf("%q opens as %q", stored, plain)
		}
	})
}

func BenchmarkUncovered(b *testing.B) {
	set := parse(b, config("secrets", keyOf("aesgcm", "a", 32, 1)))
	value := make([]byte, 3000)
	for b.Loop() {
		if _, _, err := set.Open(b.Context(), "/core/pods/default/web-1", value); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSealAndOpen(b *testing.B) {
	set := parse(b, config("secrets", keyOf("aesgcm", "a", 32, 1)))
	value := make([]byte, 3000)
	for b.Loop() {
		stored, err := set.Seal(b.Context(), storeKey, value)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := set.Open(b.Context(), storeKey, stored); err != nil {
			b.Fatal(err)
		}
	}
}
