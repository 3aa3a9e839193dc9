package apiserver

import (
	"context"
	"time"

	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/authz"
)

// Audit says what is recorded of requests, and where; the zero value records nothing.
type Audit struct {
	// PolicyFile is an audit.k8s.io/v1 Policy.
	PolicyFile string
	// LogPath is the file that takes events, a line each; "-" is the standard output. LogFormat is json or legacy. It is rotated at LogMaxSize MB;
	// LogMaxAge in days and LogMaxBackups bound the old ones. 0 bounds nothing.
	LogPath, LogFormat                   string
	LogMaxSize, LogMaxAge, LogMaxBackups int
	LogCompress                          bool
	Log                                  AuditDelivery
	// WebhookConfigFile is a kubeconfig that leads to the receiver of batches of events.
	WebhookConfigFile     string
	WebhookInitialBackoff time.Duration
	Webhook               AuditDelivery
}

// AuditDelivery says how events come to a backend.
type AuditDelivery = audit.Delivery

func (cfg *Config) auditLog() (*audit.Log, error) {
	a := cfg.Audit
	if a == (Audit{}) {
		return nil, nil
	}
	return audit.New(audit.Config{
		PolicyFile: a.PolicyFile,
		File: audit.FileConfig{
			Path: a.LogPath, Format: a.LogFormat, MaxSize: a.LogMaxSize, MaxAge: a.LogMaxAge, MaxBackups: a.LogMaxBackups, Compress: a.LogCompress,
			Delivery: a.Log,
		},
		Webhook: audit.WebhookConfig{
			ConfigFile: a.WebhookConfigFile, InitialBackoff: a.WebhookInitialBackoff, Delivery: a.Webhook,
		},
		Metrics: audit.NewMetrics(cfg.Registerer), Clock: cfg.Clock,
	})
}

// audited makes an authorizer tell the audit log what it decided, where there is one.
func (s *Server) audited(authorizer authz.Authorizer) authz.Authorizer {
	if s.audit == nil {
		return authorizer
	}
	return audit.Authorizer{Authorizer: authorizer}
}

// runAudit delivers audit events until ctx ends.
func (s *Server) runAudit(ctx context.Context) error {
	if s.audit == nil {
		<-ctx.Done()
		return nil
	}
	return s.audit.Run(ctx)
}
