package config

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/plugin"
	"howdah.dev/services/scheduler/internal/preempt"
	"howdah.dev/services/scheduler/internal/queue"
)

// build makes profiles of what was completed and checked.
func build(c *configv1.KubeSchedulerConfiguration) *Configuration {
	result := &Configuration{Backoffs: queue.Backoffs{First: seconds(*c.PodInitialBackoffSeconds), Last: seconds(*c.PodMaxBackoffSeconds)}}
	for i := range c.Profiles {
		result.Profiles = append(result.Profiles, profile(&c.Profiles[i]))
	}
	return result
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func profile(given *configv1.KubeSchedulerProfile) Profile {
	args, plugins := arguments(given), merge(given)
	result := Profile{
		Name:          *given.SchedulerName,
		VolumeTimeout: seconds(*args.of(plugin.Find(plugin.VolumeBinding)).(*configv1.VolumeBindingArgs).BindTimeoutSeconds),
		DeviceTimeout: args.of(plugin.Find(plugin.Devices)).(*configv1.DynamicResourcesArgs).BindingTimeout.Duration,
	}
	for _, w := range plugins[plugin.Filter] {
		result.Filters = append(result.Filters, w.Filter(args.of(w.Plugin)))
	}
	for _, w := range plugins[plugin.PreFilter] {
		if plugins.has(w.Plugin, plugin.Filter) {
			continue
		}
		if f := w.Filter(args.of(w.Plugin)); f.Ahead != nil || f.Only != nil {
			result.Filters = append(result.Filters, before(f))
		}
	}
	for _, w := range plugins[plugin.Score] {
		s := w.Score(args.of(w.Plugin))
		s.Weight = int64(w.weight)
		result.Scores = append(result.Scores, s)
	}
	if p := plugin.Find(plugin.Spread); plugins.has(p, plugin.Filter) {
		for _, c := range args.of(p).(*configv1.PodTopologySpreadArgs).DefaultConstraints {
			if c.WhenUnsatisfiable == corev1.DoNotSchedule {
				result.Spread = append(result.Spread, c)
			}
		}
	}
	if p := plugin.Find(plugin.Together); plugins.has(p, plugin.Filter) {
		result.Together = len(args.of(p).(*plugin.ServiceAffinityArgs).AffinityLabels) > 0
	}
	if p := plugin.Find(plugin.Preemption); plugins.has(p, plugin.PostFilter) {
		a := args.of(p).(*configv1.DefaultPreemptionArgs)
		result.Preemption = &preempt.Enough{Percent: int(*a.MinCandidateNodesPercentage), Nodes: int(*a.MinCandidateNodesAbsolute)}
	}
	return result
}

// before is the part of a filter that says something before nodes are asked.
func before(f filter.Filter) filter.Filter {
	return filter.Filter{
		Name: f.Name, Ahead: f.Ahead, Only: f.Only,
		Prepare: func(*corev1.Pod, cluster.Snapshot) filter.Check { return nil },
	}
}

// given are the arguments of a profile's plugins that it sets, by their names.
type given map[string]runtime.Object

func arguments(profile *configv1.KubeSchedulerProfile) given {
	args := given{}
	for _, c := range profile.PluginConfig {
		args[c.Name] = c.Args.Object
	}
	return args
}

// of returns the arguments of a plugin, the default ones where none are set; nil where it takes none.
func (g given) of(p *plugin.Plugin) runtime.Object {
	if args := g[p.Name]; args != nil {
		return args
	}
	return p.Unset()
}
