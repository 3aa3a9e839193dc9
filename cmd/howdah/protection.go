package main

import (
	"cmp"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"howdah.dev/services/apiserver"
)

// protectionFlags are the settings by which an apiserver keeps its data to itself and its callers within bounds.
type protectionFlags struct {
	encryptionConfig string
	encryptionReload bool
	maxReads         int
	maxWrites        int
	maxWatches       int
	fairness         bool
	requestTimeout   time.Duration
	minRequest       int // seconds
	audit            auditFlags
}

func (p *protectionFlags) flags(f *pflag.FlagSet) {
	p.audit.flags(f)
	f.StringVar(&p.encryptionConfig, "encryption-provider-config", "", "EncryptionConfiguration that says what is encrypted in the database, and how; empty encrypts nothing")
	f.IntVar(&p.maxReads, "max-requests-inflight", 400, "reading requests that are answered at a time; with priority and fairness, its sum with the next is what is shared out")
	f.IntVar(&p.maxWrites, "max-mutating-requests-inflight", 200, "writing requests that are answered at a time")
	f.IntVar(&p.maxWatches, "max-watches-per-user", 10_000, "watches that one user has open at a time at one apiserver; more are refused with 429; -1 sets no bound")
	f.BoolVar(&p.fairness, "enable-priority-and-fairness", true, "share the requests in flight as FlowSchemas and PriorityLevelConfigurations say")
	f.DurationVar(&p.requestTimeout, "request-timeout", time.Minute, "how long a request may take, watches and streams excepted")
	f.IntVar(&p.minRequest, "min-request-timeout", 1800, "seconds that a watch lasts at least whose client does not say how long; it ends before twice that; 0 lets it last")
	f.BoolVar(&p.encryptionReload, "encryption-provider-config-automatic-reload", true, "take over changes of the EncryptionConfiguration without a restart")
}

func (p *protectionFlags) apply(cfg *apiserver.Config) {
	cfg.Audit, _ = p.audit.settings()
	cfg.EncryptionConfig, cfg.EncryptionReload = p.encryptionConfig, p.encryptionReload
	cfg.MaxReads, cfg.MaxWrites, cfg.NoPriorityAndFairness = p.maxReads, p.maxWrites, !p.fairness
	cfg.MaxWatches = p.maxWatches
	cfg.RequestTimeout = p.requestTimeout
	cfg.MinWatch = cmp.Or(time.Duration(p.minRequest)*time.Second, -1)
}

// check reports the problems of the settings.
func (p *protectionFlags) check() error {
	var problems []error
	if p.maxReads < 1 {
		problems = append(problems, errors.New("--max-requests-inflight must be positive"))
	}
	if p.maxWrites < 1 {
		problems = append(problems, errors.New("--max-mutating-requests-inflight must be positive"))
	}
	if p.maxWatches == 0 || p.maxWatches < -1 {
		problems = append(problems, errors.New("--max-watches-per-user must be positive, or -1"))
	}
	if p.requestTimeout <= 0 {
		problems = append(problems, errors.New("--request-timeout must be positive"))
	}
	if p.minRequest < 0 {
		problems = append(problems, errors.New("--min-request-timeout can not be negative value"))
	}
	if _, err := p.audit.settings(); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
