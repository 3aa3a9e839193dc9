package encrypted

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/seal"
	"howdah.dev/services/apiserver/internal/store"
)

const (
	secretKey = "/core/secrets/default/a"
	podKey    = "/core/pods/default/a"
)

type memory struct{ *memstore.Store }

func (memory) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// configOf is a configuration in which the first of the named keys writes; "" is identity.
func configOf(names ...string) string {
	text := "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [secrets]\n  providers:\n"
	for _, name := range names {
		if name == "" {
			text += "  - identity: {}\n"
			continue
		}
		secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(name[:1]), 32))
		text += fmt.Sprintf("  - aesgcm: {keys: [{name: %s, secret: %s}]}\n", name, secret)
	}
	return text
}

// fixture is a store over one in memory, with its file.
type fixture struct {
	*Store
	plain memory
	path  string
	clock *clocktesting.FakeClock
}

func setup(t *testing.T, plain memory, names ...string) *fixture {
	t.Helper()
	f := &fixture{plain: plain, path: filepath.Join(t.TempDir(), "encryption.yaml"), clock: clocktesting.NewFakeClock(time.Now())}
	f.write(t, configOf(names...))
	s, err := New(Config{Backend: plain, Path: f.path, Reload: true, Clock: f.clock, Metrics: seal.NewMetrics(nil, nil)})
	if err != nil {
		t.Fatal(err)
	}
	f.Store = s
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) put(t *testing.T, op store.Op, key, value string) {
	t.Helper()
	if r := f.Write(t.Context(), store.Write{Op: op, Key: key, Value: []byte(value)}); r.Err != nil {
		t.Fatal(r.Err)
	}
}

// await steps the clock until ok, which looks at the store's answer.
func (f *fixture) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it never happens: ", what)
		}
		if f.clock.HasWaiters() {
			f.clock.Step(reloadEvery)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestStoreBehindSeesCiphertextOnly(t *testing.T) {
	t.Parallel()
	f := setup(t, memory{memstore.New()}, "one", "")
	f.put(t, store.Create, secretKey, "value")
	f.put(t, store.Create, podKey, "pod")
	group := []store.Write{{Op: store.Update, Key: secretKey, Value: []byte("changed")}, {Op: store.Update, Key: podKey, Value: []byte("pod2")}}
	results, err := f.WriteAtomic(t.Context(), group)
	if err != nil || string(results[0].Previous.Value) != "value" {
		t.Fatal(results, err)
	}
	if string(group[0].Value) != "changed" {
		t.Error("the caller's writes were changed")
	}
	page, err := f.plain.List(t.Context(), store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if seal.Sealed(e.Value) != (e.Key == secretKey) {
			t.Errorf("%s is stored as %q", e.Key, e.Value)
		}
	}
	log, err := f.plain.History(t.Context(), store.HistoryQuery{Key: secretKey})
	if err != nil || len(log.Changes) != 2 || bytes.Contains(log.Changes[0].Value, []byte("changed")) {
		t.Errorf("the history holds %+v, %v", log, err)
	}

	for key, want := range map[string]string{secretKey: "changed", podKey: "pod2"} {
		if e, err := f.Get(t.Context(), key); err != nil || string(e.Value) != want {
			t.Errorf("get %s: %q %v", key, e.Value, err)
		}
	}
	if page, err = f.List(t.Context(), store.Query{Prefix: "/core/secrets/"}); err != nil || string(page.Entries[0].Value) != "changed" {
		t.Error("list", page, err)
	}
	if page, err = f.List(t.Context(), store.Query{Prefix: "/core/secrets/", Revision: 1}); err != nil || string(page.Entries[0].Value) != "value" {
		t.Error("list as of a revision", page, err)
	}
	log, err = f.History(t.Context(), store.HistoryQuery{Key: secretKey})
	if err != nil || string(log.Changes[0].Value) != "changed" || string(log.Changes[0].Previous.Value) != "value" {
		t.Errorf("history %+v %v", log, err)
	}
	var told []string
	errEnough := errors.New("enough")
	err = f.Tail(t.Context(), 0, func(events []store.Event) error {
		for _, e := range events {
			told = append(told, string(e.Value))
		}
		if len(told) == 4 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || fmt.Sprint(told) != "[value pod changed pod2]" {
		t.Error("tail", told, err)
	}
}

func TestReloadAndStale(t *testing.T) {
	t.Parallel()
	plain := memory{memstore.New()}
	if r := plain.Write(t.Context(), store.Write{Op: store.Create, Key: secretKey, Value: []byte("value")}); r.Err != nil {
		t.Fatal(r.Err)
	}
	f := setup(t, plain, "one", "")
	stale := func() bool {
		stale, err := f.Stale(t.Context(), secretKey)
		if err != nil {
			t.Fatal(err)
		}
		return stale
	}
	if e, err := f.Get(t.Context(), secretKey); err != nil || string(e.Value) != "value" || !stale() {
		t.Fatal("what was stored before encryption", e, err)
	}
	f.put(t, store.Update, secretKey, "value")
	if stale() {
		t.Fatal("stale after a write")
	}
	f.write(t, "nonsense")
	f.clock.Step(reloadEvery)
	f.put(t, store.Update, secretKey, "value") // the old configuration stays in force
	f.write(t, configOf("two", "one"))
	f.await(t, "the new key writes", stale)
	if e, err := f.Get(t.Context(), secretKey); err != nil || string(e.Value) != "value" {
		t.Fatal("what the older key wrote", e, err)
	}
	if stale, err := f.Stale(t.Context(), podKey); stale || err != nil {
		t.Error("a pod is stale", err)
	}
	f.put(t, store.Update, secretKey, "value")
	if stale() {
		t.Error("stale after a write with the new key")
	}
}

func TestUnreadableUntilTheKeyIsThere(t *testing.T) {
	t.Parallel()
	plain := memory{memstore.New()}
	one := setup(t, plain, "one")
	one.put(t, store.Create, secretKey, "value")
	other := setup(t, plain, "two")
	tailed := make(chan error, 1)
	values := make(chan string, 10)
	go func() {
		tailed <- other.Tail(t.Context(), 0, func(events []store.Event) error {
			for _, e := range events {
				values <- string(e.Value)
			}
			return nil
		})
	}()
	if v := <-values; !seal.Sealed([]byte(v)) {
		t.Fatalf("the tail tells %q", v)
	}
	one.put(t, store.Create, podKey, "pod")
	if v := <-values; v != "pod" {
		t.Fatalf("one value that cannot be opened holds others up: %q", v)
	}
	other.write(t, configOf("two", "one"))
	var err error
	other.await(t, "the tail begins anew", func() bool {
		select {
		case err = <-tailed:
			return true
		default:
			return false
		}
	})
	if !errors.Is(err, store.ErrTooOld) {
		t.Fatal(err)
	}
	if e, err := other.Get(t.Context(), secretKey); err != nil || string(e.Value) != "value" {
		t.Fatal(e, err)
	}
}

func TestPlainThatIsNotAllowedIsNotHandedOut(t *testing.T) {
	t.Parallel()
	plain := memory{memstore.New()}
	if r := plain.Write(t.Context(), store.Write{Op: store.Create, Key: secretKey, Value: []byte("forged")}); r.Err != nil {
		t.Fatal(r.Err)
	}
	f := setup(t, plain, "one")
	if e, err := f.Get(t.Context(), secretKey); err != nil || string(e.Value) == "forged" {
		t.Fatal(e, err)
	}
}
