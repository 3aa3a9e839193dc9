package apiserver

import (
	"context"
	"maps"
	"slices"

	"howdah.dev/services/apiserver/internal/discovery"
	"howdah.dev/services/apiserver/internal/seal"
	"howdah.dev/services/apiserver/internal/store/encrypted"
)

// encryption is what the server asks of an encrypted store; zero where nothing is encrypted.
type encryption struct {
	stale  func(ctx context.Context, key string) (bool, error)
	checks []discovery.Check
}

// encrypted puts encryption in front of a store, where it is configured.
func (cfg *Config) encrypted(plain backend) (backend, encryption, error) {
	if cfg.EncryptionConfig == "" {
		return plain, encryption{}, nil
	}
	st, err := encrypted.New(encrypted.Config{
		Backend: plain, Path: cfg.EncryptionConfig, Reload: cfg.EncryptionReload, Clock: cfg.Clock, Metrics: seal.NewMetrics(cfg.Registerer, cfg.identified()),
	})
	if err != nil {
		return nil, encryption{}, err
	}
	return st, encryption{st.Stale, cfg.pluginChecks(st)}, nil
}

// pluginChecks are one check of all plugins where they may change, or else one of each: as Kubernetes names them.
func (cfg *Config) pluginChecks(st *encrypted.Store) []discovery.Check {
	if cfg.EncryptionReload {
		return []discovery.Check{{Name: "kms-providers", Run: st.Healthy}}
	}
	var checks []discovery.Check
	plugins := st.Plugins()
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		checks = append(checks, discovery.Check{Name: name, Run: plugins[name]})
	}
	return checks
}
