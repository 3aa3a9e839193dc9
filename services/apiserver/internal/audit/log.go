// Package audit records who asked for what, and what came of it, as an audit.k8s.io Policy says.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	libraryaudit "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"

	"howdah.dev/kit/task"
)

type auditConfig = libraryaudit.RequestAuditConfig

// backend takes events. It must not change them, nor what they point to.
type backend interface {
	// It fails where the request is to be refused because the event is lost.
	record(auditv1.Event) error
	// run delivers until ctx ends, and then what it has taken.
	run(ctx context.Context) error
}

// Config is what a log needs.
type Config struct {
	// PolicyFile is an audit.k8s.io/v1 Policy.
	PolicyFile string
	File       FileConfig
	Webhook    WebhookConfig
	Metrics    *Metrics
	Clock      clock.WithTicker
}

// Log records events.
type Log struct {
	rules    libraryaudit.PolicyRuleEvaluator
	backends []backend
	metrics  *Metrics
	clock    clock.PassiveClock
	underway underway
}

// New reads the policy and builds the backends; nothing runs before Run. nil, nil is answered where nothing is configured.
func New(cfg Config) (*Log, error) {
	if cfg.PolicyFile == "" {
		if cfg.File.Path != "" || cfg.Webhook.ConfigFile != "" {
			return nil, errors.New("audit: --audit-log-path and --audit-webhook-config-file need an --audit-policy-file")
		}
		return nil, nil
	}
	if cfg.File.Path == "" && cfg.Webhook.ConfigFile == "" {
		return nil, errors.New("audit: --audit-policy-file needs an --audit-log-path or an --audit-webhook-config-file")
	}
	p, err := policy.LoadPolicyFromFile(cfg.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("audit policy: %w", err)
	}
	cfg.File.Format, cfg.File.Delivery.Mode = cmp.Or(cfg.File.Format, FormatJSON), cmp.Or(cfg.File.Delivery.Mode, ModeBlocking)
	cfg.Webhook.Delivery.Mode = cmp.Or(cfg.Webhook.Delivery.Mode, ModeBlocking)
	l := &Log{rules: policy.NewPolicyRuleEvaluator(p), metrics: cfg.Metrics, clock: cfg.Clock, underway: underway{none: make(chan struct{}, 1)}}
	if cfg.File.Path != "" {
		if err := cfg.File.validate(); err != nil {
			return nil, err
		}
		b, err := newFile(cfg.File, cfg.Metrics, cfg.Clock)
		if err != nil {
			return nil, err
		}
		l.backends = append(l.backends, b)
	}
	if cfg.Webhook.ConfigFile != "" {
		if err := cfg.Webhook.Delivery.validate("webhook"); err != nil {
			return nil, err
		}
		b, err := newWebhook(cfg.Webhook, cfg.Metrics, cfg.Clock)
		if err != nil {
			return nil, err
		}
		l.backends = append(l.backends, b)
	}
	return l, nil
}

// endsWithin is how long requests that are under way may take to end once the server is being stopped, and still be recorded.
const endsWithin = 5 * time.Second

// Run delivers events until ctx ends, and then those of the requests that end with it.
func (l *Log) Run(ctx context.Context) error {
	delivering, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		defer stop()
		l.underway.wait(delivering, endsWithin)
	})()
	var parts []task.Func
	for _, b := range l.backends {
		parts = append(parts, b.run)
	}
	return task.Run(delivering, parts...)
}

// record gives the event to all backends. It fails where one of them must not lose it, and did.
func (l *Log) record(e auditv1.Event) error {
	l.metrics.event(string(e.Level))
	var errs []error
	for _, b := range l.backends {
		errs = append(errs, b.record(e))
	}
	return errors.Join(errs...)
}

// evaluate asks the policy.
func (l *Log) evaluate(r *Request) auditConfig {
	a := authorizer.AttributesRecord{
		Verb: r.Verb, Namespace: r.Namespace, APIGroup: r.Group, APIVersion: r.Version, Resource: r.Resource, Subresource: r.Subresource,
		Name: r.Name, ResourceRequest: r.Path == "", Path: r.Path,
	}
	if u := r.User; u != nil {
		a.User = &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: u.Groups}
	}
	return l.rules.EvaluatePolicyRule(a)
}

// underway counts requests that were begun and have not ended.
type underway struct {
	n    atomic.Int64
	none chan struct{} // there were none for a moment
}

func (u *underway) begin() { u.n.Add(1) }

func (u *underway) end() {
	if u.n.Add(-1) > 0 {
		return
	}
	select {
	case u.none <- struct{}{}:
	default:
	}
}

// wait returns when there are none, or it has taken too long.
func (u *underway) wait(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for u.n.Load() > 0 {
		select {
		case <-u.none:
		case <-ctx.Done():
			return
		}
	}
}
