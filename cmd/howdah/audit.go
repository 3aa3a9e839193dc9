package main

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"howdah.dev/services/apiserver"
)

// auditFlags are the settings of the audit log; they are Kubernetes' own.
type auditFlags struct {
	apiserver.Audit
	logVersion, webhookVersion string
}

func (a *auditFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&a.PolicyFile, "audit-policy-file", "", "audit.k8s.io/v1 Policy that says what is recorded of requests")
	f.StringVar(&a.LogPath, "audit-log-path", "", `file that takes audit events, a line each; "-" is the standard output`)
	f.StringVar(&a.LogFormat, "audit-log-format", "json", "json: the whole event; legacy: a line of text")
	f.IntVar(&a.LogMaxAge, "audit-log-maxage", 366, "days after which an old audit file goes; 0 keeps it")
	f.IntVar(&a.LogMaxBackups, "audit-log-maxbackup", 100, "old audit files that are kept; 0 keeps all")
	f.IntVar(&a.LogMaxSize, "audit-log-maxsize", 100, "size of an audit file in MB after which a new one is begun; 0 begins none")
	f.BoolVar(&a.LogCompress, "audit-log-compress", false, "compress old audit files")
	deliveryFlags(f, "audit-log", &a.Log, &a.logVersion, apiserver.AuditDelivery{Mode: "blocking", MaxSize: 1})
	f.StringVar(&a.WebhookConfigFile, "audit-webhook-config-file", "", "kubeconfig that leads to the receiver of audit events")
	f.DurationVar(&a.WebhookInitialBackoff, "audit-webhook-initial-backoff", 10*time.Second, "wait before a batch is sent a second time")
	deliveryFlags(f, "audit-webhook", &a.Webhook, &a.webhookVersion, apiserver.AuditDelivery{
		Mode: "batch", MaxSize: 400, MaxWait: 30 * time.Second, Throttle: true, QPS: 10, Burst: 15,
	})
}

// deliveryFlags are the flags that both backends have, with what is their default in each.
func deliveryFlags(f *pflag.FlagSet, name string, d *apiserver.AuditDelivery, version *string, by apiserver.AuditDelivery) {
	f.StringVar(&d.Mode, name+"-mode", by.Mode,
		"batch: events are delivered in the background; blocking: a request waits until its events are delivered; blocking-strict: it is refused, too, where the first cannot be")
	f.IntVar(&d.BufferSize, name+"-batch-buffer-size", 10000, "audit events that may wait in the mode batch; more are lost")
	f.IntVar(&d.MaxSize, name+"-batch-max-size", by.MaxSize, "most events of a batch")
	f.DurationVar(&d.MaxWait, name+"-batch-max-wait", by.MaxWait, "how long a batch waits to become full")
	f.BoolVar(&d.Throttle, name+"-batch-throttle-enable", by.Throttle, "bound the number of batches in time")
	f.Float32Var(&d.QPS, name+"-batch-throttle-qps", by.QPS, "batches a second")
	f.IntVar(&d.Burst, name+"-batch-throttle-burst", by.Burst, "batches at once after a pause")
	f.BoolVar(&d.Truncate, name+"-truncate-enabled", false, "take request and response out of events that are too large, and drop those that are so even then")
	f.Int64Var(&d.MaxEventSize, name+"-truncate-max-event-size", 100<<10, "most bytes of an event")
	f.Int64Var(&d.MaxTruncatedBatch, name+"-truncate-max-batch-size", 10<<20, "most bytes of a batch, at least those of an event; events are measured one by one")
	f.StringVar(version, name+"-version", "audit.k8s.io/v1", "version of the events; there is this one")
}

// settings returns the settings, or what is wrong with them.
func (a *auditFlags) settings() (apiserver.Audit, error) {
	settings := a.Audit
	if settings.PolicyFile == "" && settings.LogPath == "" && settings.WebhookConfigFile == "" {
		return apiserver.Audit{}, nil
	}
	for _, version := range []string{a.logVersion, a.webhookVersion} {
		if version != "audit.k8s.io/v1" {
			return apiserver.Audit{}, errors.New(`invalid group version, allowed versions are ["audit.k8s.io/v1"]`)
		}
	}
	return settings, nil
}
