package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// legacyTokenFlag is how long the tokens last that the control plane made in Secrets and that nobody uses.
type legacyTokenFlag struct{ period time.Duration }

func (l *legacyTokenFlag) flags(f *pflag.FlagSet) {
	f.DurationVar(&l.period, "legacy-service-account-token-clean-up-period", 8760*time.Hour,
		"how long a token in a Secret that the control plane made may be unused before it is refused, and then before it is removed")
}

func (l *legacyTokenFlag) validate() error {
	if l.period <= 0 {
		return fmt.Errorf("invalid --legacy-service-account-token-clean-up-period: %s", l.period)
	}
	return nil
}
