package main

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"howdah.dev/cmd/howdah/internal/gate"
)

// featureFlags are the feature gates, set as Kubernetes' are: --feature-gates=Name=true.
type featureFlags struct {
	settings []string
}

func (g *featureFlags) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&g.settings, "feature-gates", nil, "features to switch on or off, as Name=true, with Kubernetes' names; these can be switched: "+strings.Join(gate.Switchable(), ", ")+
		", and are off by default. "+gate.CBOR+", with which application/cbor is served, belongs on apiservers and gateways, "+gate.ToZero+" on apiservers and controllers; the others switch kinds on that --runtime-config names")
}

// gates returns the gates, and the problems with what was said of them.
func (g *featureFlags) gates() (*gate.Set, error) {
	set, err := gate.Parse(g.settings)
	if err != nil {
		return set, fmt.Errorf("--feature-gates: %w", err)
	}
	return set, nil
}

// tell notes in the log which gates are going to be removed that were set, and shows all in the metrics.
func tell(set *gate.Set, registerer prometheus.Registerer) {
	for _, w := range set.Warnings {
		slog.Warn("feature gate", "warning", w)
	}
	if registerer != nil {
		set.Register(registerer)
	}
}
