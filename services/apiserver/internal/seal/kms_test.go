package seal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	kmsv2 "k8s.io/kms/apis/v2"
	testclock "k8s.io/utils/clock/testing"
)

// plugin is a KMS plugin in memory: it masks with a key that it knows by its ID.
type plugin struct {
	kmsv2.UnimplementedKeyManagementServiceServer
	mu       sync.Mutex
	keyID    string
	healthz  string
	away     bool
	decrypts int
	corrupt  func(*kmsv2.EncryptResponse)
}

func (p *plugin) set(change func(*plugin)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *plugin) Status(context.Context, *kmsv2.StatusRequest) (*kmsv2.StatusResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return nil, errors.New("away")
	}
	return &kmsv2.StatusResponse{Version: "v2", Healthz: p.healthz, KeyId: p.keyID}, nil
}

func mask(id string, data []byte) []byte {
	key := sha256.Sum256([]byte(id))
	out := bytes.Clone(data)
	for i := range out {
		out[i] ^= key[i%len(key)]
	}
	return out
}

func (p *plugin) Encrypt(_ context.Context, req *kmsv2.EncryptRequest) (*kmsv2.EncryptResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return nil, errors.New("away")
	}
	resp := &kmsv2.EncryptResponse{Ciphertext: mask(p.keyID, req.GetPlaintext()), KeyId: p.keyID, Annotations: map[string][]byte{"version.example.com": []byte("1")}}
	if p.corrupt != nil {
		p.corrupt(resp)
	}
	return resp, nil
}

func (p *plugin) Decrypt(_ context.Context, req *kmsv2.DecryptRequest) (*kmsv2.DecryptResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decrypts++
	if p.away {
		return nil, errors.New("away")
	}
	if string(req.GetAnnotations()["version.example.com"]) != "1" {
		return nil, errors.New("the annotations got lost")
	}
	return &kmsv2.DecryptResponse{Plaintext: mask(req.GetKeyId(), req.GetCiphertext())}, nil
}

// startPlugin serves a plugin and returns the entry of a configuration that leads to it.
func startPlugin(t *testing.T) (*plugin, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "kms") // short: a socket's path has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := &plugin{keyID: "1", healthz: "ok"}
	server := grpc.NewServer()
	kmsv2.RegisterKeyManagementServiceServer(server, p)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-served })
	return p, "kms: {apiVersion: v2, name: test, endpoint: 'unix://" + path + "', timeout: 30s}"
}

func parseAt(t *testing.T, clock *testclock.FakeClock, text string) *Set {
	t.Helper()
	set, err := Parse([]byte(text), clock, NewMetrics(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

func TestKMSSealsWithoutAskingAgain(t *testing.T) {
	t.Parallel()
	p, entry := startPlugin(t)
	clock := testclock.NewFakeClock(time.Now())
	set := parseAt(t, clock, config("secrets", entry))
	stored, err := set.Seal(t.Context(), storeKey, []byte("value"))
	if err != nil || !strings.HasPrefix(string(stored), "k8s:enc:kms:v2:test:") {
		t.Fatalf("%q %v", stored, err)
	}
	p.set(func(p *plugin) { p.away = true })
	for range 10 {
		if stored, err = set.Seal(t.Context(), storeKey, []byte("value")); err != nil {
			t.Fatal(err)
		}
		if plain, stale, err := set.Open(t.Context(), storeKey, stored); err != nil || stale || string(plain) != "value" {
			t.Fatalf("%q %v %v", plain, stale, err)
		}
	}
	if _, _, err := set.Open(t.Context(), "/core/secrets/default/b", stored); err == nil {
		t.Error("it opens under another key")
	}
	clock.Step(seedLife + time.Second)
	if _, err := set.Seal(t.Context(), storeKey, []byte("value")); err == nil {
		t.Error("a seed that nobody has vouched for since long still seals")
	}
	if err := set.Healthy(t.Context()); err == nil || !strings.Contains(err.Error(), `kms-provider-0: `) {
		t.Errorf("health: %v", err)
	}
}

func TestKMSOfAnotherProcess(t *testing.T) {
	t.Parallel()
	p, entry := startPlugin(t)
	clock := testclock.NewFakeClock(time.Now())
	one, other := parseAt(t, clock, config("secrets", entry)), parseAt(t, clock, config("secrets", entry))
	stored, err := one.Seal(t.Context(), storeKey, []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	p.set(func(p *plugin) { p.away = true })
	if _, _, err := other.Open(t.Context(), storeKey, stored); err == nil {
		t.Fatal("it opens without the plugin")
	}
	p.set(func(p *plugin) { p.away, p.decrypts = false, 0 })
	clock.Step(failureKept)
	for range 10 {
		if plain, _, err := other.Open(t.Context(), storeKey, stored); err != nil || string(plain) != "value" {
			t.Fatalf("%q %v", plain, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decrypts != 1 {
		t.Errorf("the plugin decrypted %d times", p.decrypts)
	}
}

func TestKMSKeyRotation(t *testing.T) {
	t.Parallel()
	p, entry := startPlugin(t)
	clock := testclock.NewFakeClock(time.Now())
	set := parseAt(t, clock, config("secrets", entry))
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { defer close(ran); set.Run(ctx) }()
	defer func() { cancel(); <-ran }()
	stored, err := set.Seal(t.Context(), storeKey, []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	p.set(func(p *plugin) { p.keyID = "2" })
	deadline := time.Now().Add(time.Minute)
	for stale := false; !stale; {
		if time.Now().After(deadline) {
			t.Fatal("what the old key sealed does not become stale")
		}
		if clock.HasWaiters() {
			clock.Step(pollHealthy)
		}
		var plain []byte
		if plain, stale, err = set.Open(t.Context(), storeKey, stored); err != nil || string(plain) != "value" {
			t.Fatalf("%q %v", plain, err)
		}
	}
	again, err := set.Seal(t.Context(), storeKey, []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	if _, stale, err := set.Open(t.Context(), storeKey, again); err != nil || stale {
		t.Errorf("stale %v, %v", stale, err)
	}
}

func TestKMSPluginsThatLie(t *testing.T) {
	t.Parallel()
	told := map[string]string{ // in Kubernetes' words
		"unhealthy":     "kms-provider-0: kmsv2 Provider test is not healthy, error: got unexpected healthz status: the token is locked",
		"no key ID":     `kms-provider-0: kmsv2 Provider test is not healthy, error: got invalid KMSv2 KeyID hash "": keyID is empty`,
		"no ciphertext": "failed to validate encrypted DEK source: encrypted DEK source is empty",
		"away":          "kms-provider-0: failed to perform status section of the healthz check for KMS Provider test, error: rpc error: code = Unknown desc = away",
	}
	for name, change := range map[string]func(*plugin){
		"away":                     func(p *plugin) { p.away = true },
		"another key":              func(p *plugin) { p.corrupt = func(r *kmsv2.EncryptResponse) { r.KeyId = "other" } },
		"unhealthy":                func(p *plugin) { p.healthz = "the token is locked" },
		"no key ID":                func(p *plugin) { p.keyID = "" },
		"a huge key ID":            func(p *plugin) { p.keyID = strings.Repeat("x", 1025) },
		"no ciphertext":            func(p *plugin) { p.corrupt = func(r *kmsv2.EncryptResponse) { r.Ciphertext = nil } },
		"a huge ciphertext":        func(p *plugin) { p.corrupt = func(r *kmsv2.EncryptResponse) { r.Ciphertext = make([]byte, 1025) } },
		"a short annotation name":  func(p *plugin) { p.corrupt = func(r *kmsv2.EncryptResponse) { r.Annotations["x"] = nil } },
		"does not decrypt its own": func(p *plugin) { p.corrupt = func(r *kmsv2.EncryptResponse) { r.Ciphertext[0] ^= 1 } },
		"decrypts to less":         func(p *plugin) { p.corrupt = func(r *kmsv2.EncryptResponse) { r.Ciphertext = r.Ciphertext[:5] } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, entry := startPlugin(t)
			p.set(change)
			set := parseAt(t, testclock.NewFakeClock(time.Now()), config("secrets", entry))
			if _, err := set.Seal(t.Context(), storeKey, []byte("value")); err == nil {
				t.Error("it seals")
			}
			if err := set.Healthy(t.Context()); err == nil || !strings.Contains(err.Error(), told[name]) {
				t.Errorf("of its health is told: %v", err)
			}
		})
	}
}
