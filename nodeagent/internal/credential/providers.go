package credential

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kubeletv1 "k8s.io/kubelet/config/v1"
	providerv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"k8s.io/utils/clock"
)

// Login is what a registry is shown.
type Login struct {
	Server             string
	Username, Password string
}

// Providers are a node's plugins.
type Providers struct {
	all     []*provider
	clock   clock.PassiveClock
	errors  *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// provider is one plugin, with what it has answered.
type provider struct {
	name     string
	patterns []pattern
	keep     time.Duration
	plugin   plugin

	mu      sync.Mutex
	answers map[string]answer  // by image, registry, or global
	asking  map[string]*asking // by image
}

// answer is kept for a while. Of key and login a map, as the plugin gave it.
type answer struct {
	auth    map[string]providerv1.AuthConfig
	expires time.Time
}

// asking is a question that several pods wait for.
type asking struct {
	done chan struct{}
	auth map[string]providerv1.AuthConfig
	err  error
}

// global is the key of answers that hold for all images; no image has it as its name.
const global = "<global>"

// New reads the configuration. It starts nothing.
func New(o Options, clk clock.PassiveClock, registerer prometheus.Registerer) (*Providers, error) {
	codecs, err := newCodecs()
	if err != nil {
		return nil, err
	}
	s, err := o.read(codecs)
	if err != nil {
		return nil, err
	}
	p := &Providers{
		clock: clk,
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_credential_provider_plugin_errors_total", Help: "Questions that credential provider plugins failed to answer.",
		}, []string{"plugin_name"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_credential_provider_plugin_duration", Help: "Seconds that credential provider plugins took to answer.", Buckets: prometheus.DefBuckets,
		}, []string{"plugin_name"}),
	}
	for _, c := range s.providers {
		p.all = append(p.all, newProvider(c, plugin{
			path: filepath.Join(o.BinDir, c.Name), args: c.Args, env: environment(os.Environ(), c.Env), codecs: codecs, timeout: deadline,
		}))
	}
	if registerer != nil && len(p.all) > 0 {
		info := prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_credential_provider_config_info", Help: "The configuration of credential providers, by its hash.", ConstLabels: prometheus.Labels{"hash": s.hash},
		})
		info.Set(1)
		registerer.MustRegister(p.errors, p.seconds, info)
	}
	return p, nil
}

func newProvider(c kubeletv1.CredentialProvider, p plugin) *provider {
	out := &provider{name: c.Name, keep: c.DefaultCacheDuration.Duration, plugin: p, answers: map[string]answer{}, asking: map[string]*asking{}}
	for _, text := range c.MatchImages {
		pattern, err := parsePattern(text)
		if err != nil {
			continue // checked before
		}
		out.patterns = append(out.patterns, pattern)
	}
	return out
}

// Logins returns what the plugins have for an image, by its full name without tag and digest: the most particular logins first, and of several for one key
// those of the plugin that comes first. A plugin that fails has none.
func (p *Providers) Logins(ctx context.Context, image string) []Login {
	var out []Login
	for _, provider := range p.all {
		if !slices.ContainsFunc(provider.patterns, func(m pattern) bool { return m.matches(image) }) {
			continue
		}
		auth, err := p.auth(ctx, provider, image)
		if err != nil {
			if ctx.Err() == nil {
				slog.Error("credential provider has no credentials", "provider", provider.name, "image", image, "err", err)
			}
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(auth)) {
			if a := auth[key]; matchesKey(key, image) {
				out = append(out, Login{bare(key), a.Username, a.Password})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Login) int { return cmp.Compare(b.Server, a.Server) })
	return out
}

// auth returns what a plugin has for an image: what it said before, or what it says now. Several that ask for one image share the question.
func (p *Providers) auth(ctx context.Context, of *provider, image string) (map[string]providerv1.AuthConfig, error) {
	of.mu.Lock()
	for _, key := range []string{image, registry(image), global} {
		if a, ok := of.answers[key]; ok && p.clock.Now().Before(a.expires) {
			of.mu.Unlock()
			return a.auth, nil
		}
	}
	a, running := of.asking[image]
	if !running {
		a = &asking{done: make(chan struct{})}
		of.asking[image] = a
	}
	of.mu.Unlock()
	if !running {
		go func() { // others may wait for it when the pod that came first is gone; the plugin has a deadline
			a.auth, a.err = p.ask(context.WithoutCancel(ctx), of, image)
			of.mu.Lock()
			delete(of.asking, image)
			of.mu.Unlock()
			close(a.done)
		}()
	}
	select {
	case <-a.done:
		return a.auth, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask asks a plugin and keeps its answer for as long as it says.
func (p *Providers) ask(ctx context.Context, of *provider, image string) (map[string]providerv1.AuthConfig, error) {
	begin := p.clock.Now()
	response, err := of.plugin.ask(ctx, image)
	p.seconds.WithLabelValues(of.name).Observe(p.clock.Since(begin).Seconds())
	if err != nil {
		p.errors.WithLabelValues(of.name).Inc()
		return nil, fmt.Errorf("ask the plugin: %w", err)
	}
	keep := of.keep
	if response.CacheDuration != nil {
		keep = response.CacheDuration.Duration
	}
	if keep <= 0 {
		return response.Auth, nil
	}
	key := image
	switch response.CacheKeyType {
	case providerv1.RegistryPluginCacheKeyType:
		key = registry(image)
	case providerv1.GlobalPluginCacheKeyType:
		key = global
	}
	now := p.clock.Now()
	of.mu.Lock()
	defer of.mu.Unlock()
	for key, a := range of.answers {
		if !now.Before(a.expires) {
			delete(of.answers, key)
		}
	}
	of.answers[key] = answer{response.Auth, now.Add(keep)}
	return response.Auth, nil
}

// registry is the host of an image's full name, with its port.
func registry(image string) string {
	host, _, _ := strings.Cut(image, "/")
	return host
}
