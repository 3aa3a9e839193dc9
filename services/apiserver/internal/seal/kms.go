package seal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	kmsv2 "k8s.io/kms/apis/v2"
	"k8s.io/utils/clock"
)

const (
	// A plugin is asked how it is so often, as Kubernetes does.
	pollHealthy   = time.Minute
	pollUnhealthy = 10 * time.Second
	// seedLife is how long a seed may go on sealing without a word from the plugin that its key is still the newest.
	seedLife = 3 * time.Minute
	// seedsKept bounds the decrypted seeds that are remembered; there is about one an apiserver's start and key.
	seedsKept = 1000
	// failureKept is how long a seed that the plugin could not decrypt is not asked for again.
	failureKept = 2 * time.Second
)

// kms seals with keys derived from a seed that only a plugin can decrypt: KMS v2. The plugin is called once a seed.
//
//	length of header | header, an EncryptResponse with the encrypted seed | what derived makes of the value
type kms struct {
	name    string
	timeout time.Duration
	clock   clock.WithTicker
	metrics *Metrics
	conn    *grpc.ClientConn
	client  kmsv2.KeyManagementServiceClient

	mu sync.Mutex // held while the plugin is asked for a new seed
	// state is under stateMu.
	stateMu sync.Mutex
	state   *seed
	keyID   string // what the plugin said last
	problem error  // what the last status was wrong with
	checked time.Time
	opened  map[[32]byte]derived
	failed  map[[32]byte]failure
}

// seed is what this process seals with.
type seed struct {
	derived
	header []byte // EncryptResponse, as it is stored
	keyID  string
	until  time.Time
}

type failure struct {
	err   error
	until time.Time
}

func newKMS(name, endpoint string, timeout time.Duration, clock clock.WithTicker, metrics *Metrics) (*kms, error) {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok {
		return nil, fmt.Errorf("kms %q: endpoint %q is no unix socket", name, endpoint)
	}
	if abstract, ok := strings.CutPrefix(path, "/@"); ok {
		path = "@" + abstract
	}
	conn, err := grpc.NewClient("passthrough:///kms-plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}),
		// A plugin that begins to listen within a call's time is waited for.
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		return nil, fmt.Errorf("kms %q: %w", name, err)
	}
	return &kms{
		name: name, timeout: timeout, clock: clock, metrics: metrics, conn: conn, client: kmsv2.NewKeyManagementServiceClient(conn),
		opened: map[[32]byte]derived{}, failed: map[[32]byte]failure{},
	}, nil
}

func (k *kms) prefix() string { return marker + "kms:v2:" + k.name + ":" }

// run asks the plugin how it is, and takes a new seed when its key has changed.
func (k *kms) run(ctx context.Context) {
	for {
		wait := pollHealthy
		if k.refresh(ctx) != nil {
			wait = pollUnhealthy
		}
		timer := k.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// healthy says what is wrong with the plugin; a finding is good for 10 s.
func (k *kms) healthy(ctx context.Context) error {
	k.stateMu.Lock()
	fresh := !k.checked.IsZero() && k.clock.Since(k.checked) < pollUnhealthy
	problem := k.problem
	k.stateMu.Unlock()
	if fresh {
		return problem
	}
	return k.refresh(ctx)
}

// refresh asks for the status, and makes a seed where there is none for the plugin's key.
func (k *kms) refresh(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := k.refreshLocked(ctx)
	return err
}

func (k *kms) refreshLocked(ctx context.Context) (*seed, error) {
	keyID, err := k.status(ctx)
	k.stateMu.Lock()
	state := k.state
	k.stateMu.Unlock()
	if err == nil && (state == nil || state.keyID != keyID) {
		if state, err = k.newSeed(ctx); err == nil && state.keyID != keyID {
			err = fmt.Errorf("the plugin encrypts with another key than its status says: statusKeyIDHash=%q, encryptKeyIDHash=%q", hashOf(keyID), hashOf(state.keyID))
		}
		if err != nil {
			err = k.unhealthy(fmt.Errorf("failed to rotate DEK: %w", err))
		}
	}
	k.stateMu.Lock()
	defer k.stateMu.Unlock()
	k.problem, k.checked = err, k.clock.Now()
	if err != nil {
		return nil, err
	}
	k.keyID = keyID
	renewed := *state
	renewed.until = k.clock.Now().Add(seedLife)
	k.state = &renewed
	return k.state, nil
}

func (k *kms) status(ctx context.Context) (keyID string, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	start := time.Now()
	resp, err := k.client.Status(ctx, &kmsv2.StatusRequest{})
	k.metrics.call(k.name, "/v2.KeyManagementService/Status", start, err)
	switch {
	case err != nil:
		return "", fmt.Errorf("failed to perform status section of the healthz check for KMS Provider %s, error: %w", k.name, err)
	case resp.GetVersion() != "v2" && resp.GetVersion() != "v2beta1":
		return "", k.unhealthy(fmt.Errorf("expected KMSv2 API version v2, got %s", resp.GetVersion()))
	case resp.GetHealthz() != "ok":
		return "", k.unhealthy(fmt.Errorf("got unexpected healthz status: %s", resp.GetHealthz()))
	}
	if err := checkKeyID(resp.GetKeyId()); err != nil {
		k.metrics.keyInvalid(k.name, resp.GetKeyId())
		return "", k.unhealthy(err)
	}
	k.metrics.keyTold(k.name, resp.GetKeyId(), k.clock.Now())
	return resp.GetKeyId(), nil
}

// unhealthy says whose problem it is, in Kubernetes' words.
func (k *kms) unhealthy(err error) error {
	return fmt.Errorf("kmsv2 Provider %s is not healthy, error: %w", k.name, err)
}

// hashOf is what is told of a key ID, which may be a secret's.
func hashOf(keyID string) string {
	if keyID == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(keyID))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func checkKeyID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("got invalid KMSv2 KeyID hash %q: keyID is empty", "")
	case len(id) > 1024:
		return fmt.Errorf("got invalid KMSv2 KeyID hash %q: keyID is %d bytes, which exceeds the max size of 1024", hashOf(id), len(id))
	}
	return nil
}

// newSeed makes a seed and has the plugin encrypt it; and decrypt it, so that nothing is sealed that cannot be opened.
func (k *kms) newSeed(ctx context.Context) (*seed, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*k.timeout)
	defer cancel()
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	start := time.Now()
	resp, err := k.client.Encrypt(ctx, &kmsv2.EncryptRequest{Uid: string(uuid.NewUUID()), Plaintext: secret})
	k.metrics.call(k.name, "/v2.KeyManagementService/Encrypt", start, err)
	if err != nil {
		return nil, fmt.Errorf("failed to encrypt DEK, error: %w", err)
	}
	if err := checkEncrypted(resp); err != nil {
		return nil, err
	}
	header, err := proto.MarshalOptions{Deterministic: true}.Marshal(resp)
	if err != nil {
		return nil, err
	}
	opened, err := k.decrypt(ctx, header)
	if err != nil {
		return nil, err
	}
	if string(opened.secret) != string(secret) {
		return nil, errors.New("the plugin does not decrypt what it encrypted")
	}
	k.metrics.seed(k.name)
	k.remember(sha256.Sum256(header), opened)
	return &seed{derived: opened, header: header, keyID: resp.GetKeyId()}, nil
}

func checkEncrypted(resp *kmsv2.EncryptResponse) error {
	if n := len(resp.GetCiphertext()); n == 0 {
		return errors.New("failed to validate encrypted DEK source: encrypted DEK source is empty")
	} else if n > 1024 {
		return fmt.Errorf("failed to validate encrypted DEK source: encrypted DEK source is %d bytes, which exceeds the max size of 1024", n)
	}
	size := 0
	for name, value := range resp.GetAnnotations() {
		if !strings.Contains(name, ".") || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return fmt.Errorf("failed to validate annotations: annotations: Invalid value: %q: must be a fully qualified domain name", name)
		}
		size += len(name) + len(value)
	}
	if size > 32<<10 {
		return fmt.Errorf("the plugin's annotations have %d bytes, at most 32 KiB are allowed", size)
	}
	return checkKeyID(resp.GetKeyId())
}

func (k *kms) seal(ctx context.Context, key string, plain []byte) ([]byte, error) {
	s, err := k.current(ctx)
	if err != nil {
		return nil, err
	}
	sealed, err := s.seal(key, plain)
	if err != nil {
		return nil, err
	}
	k.metrics.keyUsed(toStorage, k.name, s.keyID, k.clock.Now())
	out := binary.AppendUvarint(make([]byte, 0, len(s.header)+len(sealed)+4), uint64(len(s.header)))
	return append(append(out, s.header...), sealed...), nil
}

// current returns the seed to seal with, and asks the plugin where it is not known to be good.
func (k *kms) current(ctx context.Context) (*seed, error) {
	if s := k.valid(); s != nil {
		return s, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.valid(); s != nil {
		return s, nil
	}
	return k.refreshLocked(ctx)
}

func (k *kms) valid() *seed {
	k.stateMu.Lock()
	defer k.stateMu.Unlock()
	if k.state == nil || !k.clock.Now().Before(k.state.until) {
		return nil
	}
	return k.state
}

func (k *kms) open(ctx context.Context, key string, sealed []byte) ([]byte, bool, error) {
	header, n := protowire.ConsumeBytes(sealed)
	if n < 0 {
		return nil, false, errTampered
	}
	d, keyID, err := k.seedOf(ctx, header)
	if err != nil {
		return nil, false, err
	}
	plain, err := d.open(key, sealed[n:])
	if err != nil {
		return nil, false, err
	}
	k.metrics.keyUsed(fromStorage, k.name, keyID, k.clock.Now())
	k.stateMu.Lock()
	defer k.stateMu.Unlock()
	return plain, k.keyID != "" && keyID != k.keyID, nil
}

// seedOf returns the seed of a header, from memory or from the plugin.
func (k *kms) seedOf(ctx context.Context, header []byte) (d derived, keyID string, err error) {
	var resp kmsv2.EncryptResponse
	if err := proto.Unmarshal(header, &resp); err != nil {
		return d, "", errTampered
	}
	id := sha256.Sum256(header)
	k.stateMu.Lock()
	d, known := k.opened[id]
	f, bad := k.failed[id]
	k.stateMu.Unlock()
	switch {
	case known:
		return d, resp.GetKeyId(), nil
	case bad && k.clock.Now().Before(f.until):
		return d, "", f.err
	}
	if d, err = k.decrypt(ctx, header); err != nil {
		k.stateMu.Lock()
		defer k.stateMu.Unlock()
		if len(k.failed) >= seedsKept {
			clear(k.failed)
		}
		k.failed[id] = failure{err, k.clock.Now().Add(failureKept)}
		return d, "", err
	}
	k.remember(id, d)
	return d, resp.GetKeyId(), nil
}

func (k *kms) remember(id [32]byte, d derived) {
	k.stateMu.Lock()
	defer k.stateMu.Unlock()
	for old := range k.opened {
		if len(k.opened) < seedsKept {
			break
		}
		delete(k.opened, old)
	}
	k.opened[id] = d
	delete(k.failed, id)
	k.metrics.cache(k.name, len(k.opened))
}

func (k *kms) decrypt(ctx context.Context, header []byte) (derived, error) {
	var resp kmsv2.EncryptResponse
	if err := proto.Unmarshal(header, &resp); err != nil {
		return derived{}, errTampered
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	start := time.Now()
	out, err := k.client.Decrypt(ctx, &kmsv2.DecryptRequest{
		Uid: string(uuid.NewUUID()), Ciphertext: resp.GetCiphertext(), KeyId: resp.GetKeyId(), Annotations: resp.GetAnnotations(),
	})
	k.metrics.call(k.name, "/v2.KeyManagementService/Decrypt", start, err)
	if err != nil {
		return derived{}, fmt.Errorf("failed to decrypt the seed: %w", err)
	}
	if len(out.GetPlaintext()) != 32 {
		return derived{}, fmt.Errorf("the plugin's plaintext has %d bytes, not the seed's 32", len(out.GetPlaintext()))
	}
	return derived{secret: out.GetPlaintext()}, nil
}
