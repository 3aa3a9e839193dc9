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
	// LogPath is the file that takes events, a JSON object a line; "-" is the standard output. It is rotated at LogMaxSize MB (0: 100);
	// LogMaxAge in days and LogMaxBackups bound the old ones (0: they are kept).
	LogPath                              string
	LogMaxSize, LogMaxAge, LogMaxBackups int
	LogCompress                          bool
	// LogBatch writes in the background; otherwise a request waits for its events to be written.
	LogBatch bool
	// WebhookConfigFile is a kubeconfig that leads to the receiver of batches of events.
	WebhookConfigFile     string
	WebhookInitialBackoff time.Duration
	// WebhookBufferSize, WebhookMaxSize, WebhookMaxWait, WebhookQPS and WebhookBurst have Kubernetes' defaults where they are 0.
	WebhookBufferSize, WebhookMaxSize int
	WebhookMaxWait                    time.Duration
	WebhookQPS                        float32
	WebhookBurst                      int
}

func (cfg *Config) auditLog() (*audit.Log, error) {
	a := cfg.Audit
	if a == (Audit{}) {
		return nil, nil
	}
	return audit.New(audit.Config{
		PolicyFile: a.PolicyFile,
		File: audit.FileConfig{
			Path: a.LogPath, MaxSize: a.LogMaxSize, MaxAge: a.LogMaxAge, MaxBackups: a.LogMaxBackups, Compress: a.LogCompress, Batch: a.LogBatch,
		},
		Webhook: audit.WebhookConfig{
			ConfigFile: a.WebhookConfigFile, InitialBackoff: a.WebhookInitialBackoff, BufferSize: a.WebhookBufferSize, MaxSize: a.WebhookMaxSize,
			MaxWait: a.WebhookMaxWait, QPS: a.WebhookQPS, Burst: a.WebhookBurst,
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
