package apiserver

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/objects"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/review"
	"howdah.dev/services/apiserver/internal/runtimeconfig"
)

// served are the kinds as the settings have them served.
type served struct {
	table *registry.Table
	// made are those whose objects are made when they are read.
	made []objects.Made
	// virtual are all resources that are not stored, those of made among them.
	virtual []*registry.Resource
	has     func(*registry.Resource) bool
}

// kinds returns what is served, of what there is and of what can be made.
func (cfg *Config) kinds(made []objects.Made) (served, error) {
	kinds := kind.All(kind.Config{Now: cfg.Clock.Now, Features: cfg.Features, ServiceFamilies: cfg.families()})
	virtual := slices.Concat(review.Resources(), []*registry.Resource{objects.Bindings()}, objects.Resources(made))
	all := slices.Clone(virtual)
	for _, k := range kinds {
		all = append(all, k.Versions()...)
	}
	settings, err := runtimeconfig.Parse(cfg.RuntimeConfig, all, cfg.Features)
	if err != nil {
		return served{}, fmt.Errorf("runtime-config: %w", err)
	}
	table, err := registry.NewTableServing(kinds, settings.Has)
	return served{
		table:   table,
		made:    slices.DeleteFunc(made, func(m objects.Made) bool { return !settings.Has(m.Resource) }),
		virtual: slices.DeleteFunc(virtual, func(r *registry.Resource) bool { return !settings.Has(r) }),
		has:     settings.Has,
	}, err
}

// families are those of the addresses of Services, the default one first.
func (cfg *Config) families() []corev1.IPFamily {
	var families []corev1.IPFamily
	for _, p := range cfg.ServiceCIDRs {
		if p.Addr().Is6() {
			families = append(families, corev1.IPv6Protocol)
		} else {
			families = append(families, corev1.IPv4Protocol)
		}
	}
	return families
}

// address is where clients find the API: at the first gateway.
func (cfg *Config) address() string {
	if len(cfg.GatewayEndpoints) == 0 {
		return ""
	}
	return cfg.GatewayEndpoints[0].String()
}
