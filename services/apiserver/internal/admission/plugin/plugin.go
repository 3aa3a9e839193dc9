// Package plugin holds the admission plugins, a file each, and the table in which they stand in Kubernetes' order.
package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/admission/imagepolicy"
	"howdah.dev/services/apiserver/internal/authz"
)

// Namespaces makes namespaces.
type Namespaces interface {
	// CreateNamespace makes one that is absent; that it exists already is no error.
	CreateNamespace(ctx context.Context, name string) error
}

// Env is what plugins may need.
type Env struct {
	Objects    admission.Objects
	Authorizer authz.Authorizer
	Namespaces Namespaces
	Kinds      Kinds
	Clock      clock.Clock
	// Webhooks calls webhooks.
	Webhooks imagepolicy.Poster
	// Configured are the plugins that the API itself configures, webhooks and policies, by name.
	Configured map[string]admission.Plugin
	// Registerer takes the metrics of plugins that have their own; nil registers them nowhere.
	Registerer prometheus.Registerer
}

// Row is one plugin of the table.
type Row struct {
	// Name is Kubernetes' own.
	Name string
	// On says that the plugin runs unless it is switched off.
	On bool
	// New makes the plugin. config is its part of the admission configuration, YAML or JSON, nil where it has none; a plugin
	// that takes no configuration refuses one.
	New func(env *Env, config []byte) (admission.Plugin, error)
}

// plain is a plugin that takes no configuration.
func plain(f func(*Env) admission.Plugin) func(*Env, []byte) (admission.Plugin, error) {
	return func(env *Env, config []byte) (admission.Plugin, error) {
		if config != nil {
			return nil, fmt.Errorf("it takes no configuration")
		}
		return f(env), nil
	}
}

// Settings say which plugins run.
type Settings struct {
	// Enabled and Disabled switch plugins on and off by name, beside the defaults. Their order does not matter.
	Enabled, Disabled []string
	// Config is by plugin's name the configuration of those that have one.
	Config map[string][]byte
}

// Build returns the plugins that run, in the order of the table. It reports all problems of the settings.
func Build(env *Env, s Settings) ([]admission.Plugin, error) {
	return build(Table(), env, s)
}

func build(table []Row, env *Env, s Settings) ([]admission.Plugin, error) {
	if err := s.validate(table); err != nil {
		return nil, err
	}
	var plugins []admission.Plugin
	for _, row := range table {
		if !slices.Contains(s.Enabled, row.Name) && (!row.On || slices.Contains(s.Disabled, row.Name)) {
			continue
		}
		p, err := row.New(env, s.Config[row.Name])
		if err != nil {
			return nil, fmt.Errorf("admission plugin %s: %w", row.Name, err)
		}
		plugins = append(plugins, p)
	}
	return plugins, nil
}

func (s Settings) validate(table []Row) error {
	var names []string
	for _, row := range table {
		names = append(names, row.Name)
	}
	var problems []string
	for _, flag := range []struct {
		name  string
		given []string
	}{{"enable-admission-plugins", s.Enabled}, {"disable-admission-plugins", s.Disabled}} {
		for _, name := range flag.given {
			if !slices.Contains(names, name) {
				problems = append(problems, fmt.Sprintf("%s plugin %q is unknown", flag.name, name))
			}
		}
	}
	for name := range s.Config {
		if !slices.Contains(names, name) {
			problems = append(problems, fmt.Sprintf("the admission configuration names the unknown plugin %q", name))
		}
	}
	if len(problems) > 0 {
		slices.Sort(problems)
		known := slices.Clone(names)
		slices.Sort(known)
		return fmt.Errorf("%s; the known ones are %s", strings.Join(problems, "; "), strings.Join(known, ", "))
	}
	for _, name := range s.Enabled {
		if slices.Contains(s.Disabled, name) {
			return fmt.Errorf("%s in enable-admission-plugins and disable-admission-plugins overlapped", name)
		}
	}
	return nil
}

// podCreate reports whether the write creates a pod.
func podCreate(a *admission.Attributes) bool {
	return a.Operation == admission.Create && a.Subresource == "" && a.Is("", "pods")
}

// podBegins reports whether the write creates a pod, or changes one that waits for initializers and is to be seen as created so.
func podBegins(a *admission.Attributes) bool {
	return podCreate(a) || a.Operation == admission.Update && a.Subresource == "" && a.Is("", "pods") && a.Old != nil && waiting(a.Old)
}
