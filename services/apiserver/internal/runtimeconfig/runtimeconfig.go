// Package runtimeconfig reads --runtime-config, which says what versions of the API are served, as kube-apiserver's does.
package runtimeconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"howdah.dev/services/apiserver/internal/registry"
)

// stages are the keys for many versions at once, in the order in which they are applied. Of those that Kubernetes has removed,
// api/legacy alone decides: api/all is what Kubernetes would serve.
var stages = []struct {
	key    string
	stages []registry.Stage
}{
	{"api/all", []registry.Stage{registry.Stable, registry.Beta, registry.Alpha}},
	{"api/ga", []registry.Stage{registry.Stable}},
	{"api/beta", []registry.Stage{registry.Beta}},
	{"api/alpha", []registry.Stage{registry.Alpha}},
	{"api/legacy", []registry.Stage{registry.Removed}},
}

// Served says which resources are served.
type Served struct {
	stages    map[registry.Stage]bool
	versions  map[schema.GroupVersion]bool
	resources map[schema.GroupVersionResource]bool
	features  map[string]bool
	// current are the versions that Kubernetes still has, maybe of fewer resources.
	current map[schema.GroupVersion]bool
}

// Has reports whether a resource is served: what is said of it decides, or else of its version, or else of its stage. To switch a
// version on that Kubernetes still has brings none of the resources that have been removed from it. A kind whose feature gate is off is not
// served at all.
func (s *Served) Has(r *registry.Resource) bool {
	if f := r.Kind.Feature; f != "" && !s.features[f] {
		return false
	}
	if on, said := s.resources[r.GVR]; said {
		return on
	}
	stage, gv := r.Stage(), r.GVR.GroupVersion()
	if on, said := s.versions[gv]; said && !(on && stage == registry.Removed && s.current[gv]) {
		return on
	}
	return s.stages[stage]
}

// Parse reads settings of the form key or key=true|false, as they stand behind --runtime-config, for the resources that there are. features
// are the feature gates that are on.
// Its error names every problem.
func Parse(settings []string, resources []*registry.Resource, features map[string]bool) (*Served, error) {
	p := &parser{Served: &Served{
		features:  features,
		stages:    map[registry.Stage]bool{registry.Stable: true},
		versions:  map[schema.GroupVersion]bool{},
		resources: map[schema.GroupVersionResource]bool{},
		current:   map[schema.GroupVersion]bool{},
	}, known: map[schema.GroupVersionResource]bool{}, groups: map[string]bool{}, gvs: map[schema.GroupVersion]bool{}}
	for _, r := range resources {
		p.known[r.GVR], p.gvs[r.GVR.GroupVersion()], p.groups[r.GVR.Group] = true, true, true
		if r.Stage() != registry.Removed {
			p.current[r.GVR.GroupVersion()] = true
		}
	}
	return p.Served, p.read(settings)
}

type parser struct {
	*Served
	known  map[schema.GroupVersionResource]bool
	gvs    map[schema.GroupVersion]bool
	groups map[string]bool
}

func (p *parser) read(settings []string) error {
	said := map[string]bool{}
	var problems []error
	for _, setting := range settings {
		key, value, _ := strings.Cut(strings.TrimSpace(setting), "=")
		on, err := parseBool(strings.TrimSpace(key), strings.TrimSpace(value))
		if err != nil {
			problems = append(problems, err)
			continue
		}
		said[strings.TrimSpace(key)] = on
	}
	for _, s := range stages {
		on, is := said[s.key]
		delete(said, s.key)
		if !is {
			continue
		}
		for _, stage := range s.stages {
			p.stages[stage] = on
		}
	}
	for _, key := range slices.Sorted(maps.Keys(said)) {
		if err := p.set(key, said[key]); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

func parseBool(key, value string) (bool, error) {
	if value == "" { // the key alone switches on
		return true, nil
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("invalid value of %s: %s, err: %w", key, value, err)
	}
	return on, nil
}

// set applies what is said of v1, of group/version, or of group/version/resource.
func (p *parser) set(key string, on bool) error {
	parts := strings.Split(key, "/")
	if parts[0] == "v1" { // the core group has no name
		parts = append([]string{""}, parts...)
	}
	if len(parts) < 2 || len(parts) > 3 {
		return fmt.Errorf("runtime-config invalid key %s", key)
	}
	gv := schema.GroupVersion{Group: parts[0], Version: parts[1]}
	if !p.gvs[gv] {
		return p.absent(gv, key, on)
	}
	if len(parts) == 2 {
		p.versions[gv] = on
		return nil
	}
	gvr := gv.WithResource(parts[2])
	if !p.known[gvr] {
		return fmt.Errorf("resource %s that has not been registered", key)
	}
	p.resources[gvr] = on
	return nil
}

// absent is the problem with a version that is not there. One of Kubernetes' may be switched off: it is.
func (p *parser) absent(gv schema.GroupVersion, key string, on bool) error {
	switch {
	case scheme.Scheme.IsVersionRegistered(gv) && !on:
		return nil
	case scheme.Scheme.IsVersionRegistered(gv):
		return fmt.Errorf("group version %s cannot be served: Kubernetes has it, this API does not", gv)
	case !p.groups[gv.Group]:
		return fmt.Errorf("unknown api groups %s", key)
	}
	return fmt.Errorf("group version %s that has not been registered", gv)
}
