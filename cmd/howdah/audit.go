package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"howdah.dev/services/apiserver"
)

// auditFlags are the settings of the audit log; they are Kubernetes' own.
type auditFlags struct {
	apiserver.Audit
	logMode string
}

func (a *auditFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&a.PolicyFile, "audit-policy-file", "", "audit.k8s.io/v1 Policy that says what is recorded of requests")
	f.StringVar(&a.LogPath, "audit-log-path", "", `file that takes audit events as lines of JSON; "-" is the standard output`)
	f.IntVar(&a.LogMaxAge, "audit-log-maxage", 0, "days after which an old audit file goes; 0 keeps it")
	f.IntVar(&a.LogMaxBackups, "audit-log-maxbackup", 0, "old audit files that are kept; 0 keeps all")
	f.IntVar(&a.LogMaxSize, "audit-log-maxsize", 100, "size of an audit file in MB after which a new one is begun")
	f.BoolVar(&a.LogCompress, "audit-log-compress", false, "compress old audit files")
	f.StringVar(&a.logMode, "audit-log-mode", "blocking", "blocking: a request waits until its events are written; batch: they are written in the background")
	f.StringVar(&a.WebhookConfigFile, "audit-webhook-config-file", "", "kubeconfig that leads to the receiver of audit events")
	f.DurationVar(&a.WebhookInitialBackoff, "audit-webhook-initial-backoff", 0, "wait before a batch is sent a second time; 0 is 10s")
	f.IntVar(&a.WebhookBufferSize, "audit-webhook-batch-buffer-size", 10000, "audit events that may wait; more are lost")
	f.IntVar(&a.WebhookMaxSize, "audit-webhook-batch-max-size", 400, "most events of a batch")
	f.DurationVar(&a.WebhookMaxWait, "audit-webhook-batch-max-wait", 0, "how long a batch waits to become full; 0 is 30s")
	f.Float32Var(&a.WebhookQPS, "audit-webhook-batch-throttle-qps", 10, "batches a second")
	f.IntVar(&a.WebhookBurst, "audit-webhook-batch-throttle-burst", 15, "batches at once after a pause")
}

// settings returns the settings, or what is wrong with them.
func (a *auditFlags) settings() (apiserver.Audit, error) {
	if a.logMode != "blocking" && a.logMode != "batch" {
		return apiserver.Audit{}, fmt.Errorf("--audit-log-mode: %q is neither blocking nor batch", a.logMode)
	}
	settings := a.Audit
	settings.LogBatch = a.logMode == "batch"
	if settings.PolicyFile == "" && settings.LogPath == "" && settings.WebhookConfigFile == "" {
		return apiserver.Audit{}, nil
	}
	return settings, nil
}
