// Package seal encrypts what the store keeps, as an EncryptionConfiguration says: which resources, by which providers.
//
// A sealed value begins with the prefix of the provider that made it, as Kubernetes has them: "k8s:enc:aesgcm:v1:key1:". The
// first provider of a resource writes; each reads what it wrote. Every provider binds a value to its store key.
package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// marker begins every sealed value. What the codec stores never begins so.
const marker = "k8s:enc:"

// Sealed reports whether a stored value is ciphertext.
func Sealed(stored []byte) bool {
	return len(stored) >= len(marker) && string(stored[:len(marker)]) == marker
}

// provider is one way to keep values.
type provider interface {
	// prefix begins what the provider has sealed; empty is the identity.
	prefix() string
	// seal and open are given and return what follows the prefix.
	seal(ctx context.Context, key string, plain []byte) ([]byte, error)
	// open also tells whether the provider would seal with another secret now.
	open(ctx context.Context, key string, sealed []byte) (plain []byte, stale bool, err error)
}

// rule is what is done with some resources.
type rule struct {
	resources []schema.GroupResource
	providers []provider
}

// matches reports whether a resource is among the rule's; "*" stands for any.
func (r *rule) matches(gr schema.GroupResource) bool {
	for _, want := range r.resources {
		if (want.Group == "*" || want.Group == gr.Group) && (want.Resource == "*" || want.Resource == gr.Resource) {
			return true
		}
	}
	return false
}

// Set is a configuration at work. The nil Set leaves everything as it is.
type Set struct {
	rules   []*rule
	kms     []*kms
	metrics *Metrics
	// found remembers the rule of a key's "/group/resource/"; nil where none applies. There are as many as kinds. Every read and
	// write asks it, so it is copied when it grows, rather than locked.
	found atomic.Pointer[map[string]*rule]
}

// find returns the rule for a store key, "/group/resource/…" with "core" for the core group, or nil.
func (s *Set) find(key string) (*rule, schema.GroupResource) {
	group, resource, ok := split(key)
	if !ok {
		return nil, schema.GroupResource{}
	}
	prefix := key[:len(group)+len(resource)+3]
	gr := schema.GroupResource{Group: group, Resource: resource}
	if gr.Group == "core" {
		gr.Group = ""
	}
	known := s.found.Load()
	if known != nil {
		if r, ok := (*known)[prefix]; ok {
			return r, gr
		}
	}
	var r *rule
	for _, candidate := range s.rules {
		if gr.Group != "howdah" && candidate.matches(gr) { // howdah's own keys hold no objects
			r = candidate
			break
		}
	}
	grown := map[string]*rule{strings.Clone(prefix): r}
	if known != nil {
		maps.Copy(grown, *known)
	}
	s.found.CompareAndSwap(known, &grown) // who loses the race finds it again
	return r, gr
}

func split(key string) (group, resource string, ok bool) {
	if len(key) == 0 || key[0] != '/' {
		return "", "", false
	}
	first := strings.IndexByte(key[1:], '/')
	if first < 0 {
		return "", "", false
	}
	rest := key[first+2:]
	second := strings.IndexByte(rest, '/')
	if second < 0 {
		return "", "", false
	}
	return key[1 : first+1], rest[:second], true
}

// Seal returns the form in which a value is stored: the value itself where nothing covers its key.
func (s *Set) Seal(ctx context.Context, key string, plain []byte) ([]byte, error) {
	if s == nil {
		return plain, nil
	}
	r, gr := s.find(key)
	if r == nil {
		return plain, nil
	}
	p := r.providers[0]
	end := s.metrics.begin(gr, toStorage, p.prefix())
	sealed, err := p.seal(ctx, key, plain)
	end(err)
	if err != nil {
		return nil, fmt.Errorf("unable to transform key %q: %w", key, err)
	}
	if p.prefix() == "" {
		return plain, nil
	}
	return append([]byte(p.prefix()), sealed...), nil
}

// Open returns the value of a stored form. stale says that it would be stored otherwise now: in plain, by an older
// provider, or with an older secret.
func (s *Set) Open(ctx context.Context, key string, stored []byte) (plain []byte, stale bool, err error) {
	var r *rule
	var gr schema.GroupResource
	if s != nil {
		r, gr = s.find(key)
	}
	if r == nil {
		if Sealed(stored) {
			return nil, false, fmt.Errorf("unable to transform key %q: %w", key, errNoProvider)
		}
		return stored, false, nil
	}
	failed := errNoProvider
	for i, p := range r.providers {
		prefix := p.prefix()
		if !bytes.HasPrefix(stored, []byte(prefix)) || prefix == "" && Sealed(stored) {
			continue
		}
		end := s.metrics.begin(gr, fromStorage, prefix)
		plain, stale, err := p.open(ctx, key, stored[len(prefix):])
		end(err)
		if err == nil {
			return plain, stale || i > 0, nil
		}
		failed = err
	}
	return nil, false, fmt.Errorf("unable to transform key %q: %w", key, failed)
}

var errNoProvider = errors.New("no matching prefix found")

// Covers reports whether the values of a key are looked at at all.
func (s *Set) Covers(key string) bool {
	if s == nil {
		return false
	}
	r, _ := s.find(key)
	return r != nil
}

// Run keeps the plugins' state up to date until ctx ends.
func (s *Set) Run(ctx context.Context) {
	if s == nil {
		return
	}
	var wait sync.WaitGroup
	for _, k := range s.kms {
		wait.Go(func() { k.run(ctx) })
	}
	wait.Wait()
}

// Healthy says what is wrong with the plugins, nil when nothing is.
func (s *Set) Healthy(ctx context.Context) error {
	var problems []error
	for n := range s.Plugins() {
		if err := s.PluginHealthy(ctx, n); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", PluginName(n), err))
		}
	}
	return utilerrors.NewAggregate(problems)
}

// Plugins is how many KMS plugins there are.
func (s *Set) Plugins() int {
	if s == nil {
		return 0
	}
	return len(s.kms)
}

// PluginName is what health checks call the n-th plugin of the file, from 0 on.
func PluginName(n int) string { return fmt.Sprintf("kms-provider-%d", n) }

// PluginHealthy says what is wrong with the n-th plugin; nil when nothing is.
func (s *Set) PluginHealthy(ctx context.Context, n int) error { return s.kms[n].healthy(ctx) }

// Close lets go of the plugins' connections.
func (s *Set) Close() {
	if s == nil {
		return
	}
	for _, k := range s.kms {
		_ = k.conn.Close()
	}
}
