package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"howdah.dev/services/apiserver/internal/admission"
)

// EventRateLimit bounds how many events are written a second: by all, a namespace, a user, or a source and what it tells of.
type EventRateLimit struct{ limits []*eventLimit }

// eventCache is how many buckets of a limit are kept where the configuration does not say.
const eventCache = 4096

// eventConfig is the plugin's configuration.
type eventConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Limits     []struct {
		Type      string `json:"type"`
		QPS       int32  `json:"qps"`
		Burst     int32  `json:"burst"`
		CacheSize int32  `json:"cacheSize"`
	} `json:"limits"`
}

// NewEventRateLimit reads the plugin's configuration, which it must have.
func NewEventRateLimit(config []byte, clock clock.Clock) (*EventRateLimit, error) {
	if config == nil {
		return nil, errors.New("limits: Required value: it needs a configuration with the limits (--admission-control-config-file)")
	}
	var c eventConfig
	if err := decodeConfig(config, &c, "Configuration", "eventratelimit.admission.k8s.io/v1alpha1"); err != nil {
		return nil, err
	}
	if len(c.Limits) == 0 {
		return nil, errors.New("limits: Required value")
	}
	p, seen := &EventRateLimit{}, map[string]bool{}
	for n, l := range c.Limits {
		at := fmt.Sprintf("limits[%d]", n)
		key := eventKeys[l.Type]
		switch {
		case key == nil:
			return nil, fmt.Errorf("%s.type: Unsupported value: %q: supported values: \"Namespace\", \"Server\", \"SourceAndObject\", \"User\"", at, l.Type)
		case seen[l.Type]:
			return nil, fmt.Errorf("%s.type: Duplicate value: %q", at, l.Type)
		case l.QPS <= 0:
			return nil, fmt.Errorf("%s.qps: Invalid value: %d: must be positive", at, l.QPS)
		case l.Burst <= 0:
			return nil, fmt.Errorf("%s.burst: Invalid value: %d: must be positive", at, l.Burst)
		case l.CacheSize < 0:
			return nil, fmt.Errorf("%s.cacheSize: Invalid value: %d: must not be negative", at, l.CacheSize)
		}
		seen[l.Type] = true
		size := int(l.CacheSize)
		if size == 0 {
			size = eventCache
		}
		if l.Type == "Server" {
			size = 1
		}
		p.limits = append(p.limits, &eventLimit{
			kind: l.Type, key: key, buckets: lru.New(size),
			bucket: func() flowcontrol.PassiveRateLimiter {
				return flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(float32(l.QPS), int(l.Burst), clock)
			},
		})
	}
	return p, nil
}

// eventKeys tell by a limit's type what shares a bucket.
var eventKeys = map[string]func(*admission.Attributes) string{
	"Server":    func(*admission.Attributes) string { return "" },
	"Namespace": func(a *admission.Attributes) string { return a.Namespace },
	"User":      func(a *admission.Attributes) string { return a.User.Name },
	"SourceAndObject": func(a *admission.Attributes) string {
		e, ok := a.Object.(*corev1.Event)
		if !ok {
			return ""
		}
		o := e.InvolvedObject
		return strings.Join([]string{e.Source.Component, e.Source.Host, o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion}, "")
	},
}

type eventLimit struct {
	kind   string
	key    func(*admission.Attributes) string
	bucket func() flowcontrol.PassiveRateLimiter

	mu      sync.Mutex
	buckets *lru.Cache
}

func (l *eventLimit) accept(a *admission.Attributes) error {
	key := l.key(a)
	l.mu.Lock()
	found, ok := l.buckets.Get(key)
	if !ok {
		found = l.bucket()
		l.buckets.Add(key, found)
	}
	l.mu.Unlock()
	if found.(flowcontrol.PassiveRateLimiter).TryAccept() {
		return nil
	}
	return fmt.Errorf("limit reached on type %v for key %v", l.kind, key)
}

// Name implements admission.Plugin.
func (*EventRateLimit) Name() string { return "EventRateLimit" }

// Handles implements admission.Plugin.
func (*EventRateLimit) Handles(a *admission.Attributes) bool {
	return (a.Operation == admission.Create || a.Operation == admission.Update) && !a.DryRun && a.User != nil &&
		a.Resource.Kind.Resource == "events" && (a.Resource.Kind.GVK.Group == "" || a.Resource.Kind.GVK.Group == "events.k8s.io")
}

// Validate implements admission.Validator.
func (p *EventRateLimit) Validate(_ context.Context, a *admission.Attributes) error {
	var problems []error
	for _, l := range p.limits {
		if err := l.accept(a); err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) > 0 {
		return apierrors.NewTooManyRequestsError(errors.Join(problems...).Error())
	}
	return nil
}
