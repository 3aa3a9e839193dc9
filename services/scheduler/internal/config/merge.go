package config

import (
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"howdah.dev/services/scheduler/internal/plugin"
)

// all stands for all plugins among those that are disabled.
const all = "*"

// points are the extension points of a configuration, and what is said about each.
func points(p *configv1.Plugins) []configured {
	return []configured{
		{plugin.PreEnqueue, p.PreEnqueue}, {plugin.QueueSort, p.QueueSort}, {plugin.PreFilter, p.PreFilter}, {plugin.Filter, p.Filter},
		{plugin.PostFilter, p.PostFilter}, {plugin.PreScore, p.PreScore}, {plugin.Score, p.Score}, {plugin.Reserve, p.Reserve},
		{"permit", p.Permit}, {plugin.PreBind, p.PreBind}, {plugin.Bind, p.Bind}, {"postBind", p.PostBind},
		{"placementGenerate", p.PlacementGenerate}, {"placementScore", p.PlacementScore},
	}
}

type configured struct {
	point plugin.Point
	set   configv1.PluginSet
}

// enabled are the plugins of a profile by extension point, in the order in which they run.
type enabled map[plugin.Point][]weighted

// weighted is a plugin with the weight of its score.
type weighted struct {
	*plugin.Plugin
	weight int32
}

func (e enabled) has(p *plugin.Plugin, point plugin.Point) bool {
	return slices.ContainsFunc(e[point], func(w weighted) bool { return w.Plugin == p })
}

// merge says what a profile enables. What is said of an extension point goes before what multiPoint says, and that before the defaults. At a
// point run first those of multiPoint that the point enables itself, then the others of multiPoint in the order of the defaults and then as they are added, at last
// what only the point enables. Names that are not known are left out.
func merge(profile *configv1.KubeSchedulerProfile) enabled {
	given := profile.Plugins
	if given == nil {
		given = &configv1.Plugins{}
	}
	everywhere := multiPoint(given.MultiPoint)
	result := enabled{}
	for _, c := range points(given) {
		own := known(c.set.Enabled)
		result[c.point] = atPoint(c, own, everywhere)
	}
	return result
}

func atPoint(c configured, own, everywhere []weighted) []weighted {
	in := func(list []weighted, w weighted) bool {
		return slices.ContainsFunc(list, func(o weighted) bool { return o.Plugin == w.Plugin })
	}
	var first, rest []weighted
	for _, w := range own {
		switch {
		case !w.At(c.point):
		case in(everywhere, w):
			first = append(first, w)
		default:
			rest = append(rest, w)
		}
	}
	for _, w := range everywhere {
		if w.At(c.point) && !disables(c.set, w.Name) && !in(own, w) {
			first = append(first, w)
		}
	}
	return append(first, rest...)
}

// multiPoint are the defaults as a set changes them, and what it adds.
func multiPoint(set configv1.PluginSet) []weighted {
	added := known(set.Enabled)
	var result []weighted
	for _, p := range plugin.Defaults() {
		if disables(set, p.Name) {
			continue
		}
		w := weighted{p, p.Weight}
		if i := slices.IndexFunc(added, func(a weighted) bool { return a.Plugin == p }); i >= 0 {
			w = added[i]
			added = slices.Delete(added, i, i+1)
		}
		result = append(result, w)
	}
	return append(result, added...)
}

func disables(set configv1.PluginSet, name string) bool {
	return slices.ContainsFunc(set.Disabled, func(p configv1.Plugin) bool { return p.Name == all || p.Name == name })
}

// known are the plugins that there are. No weight, or 0, is 1.
func known(list []configv1.Plugin) []weighted {
	var result []weighted
	for _, given := range list {
		p := plugin.Find(given.Name)
		if p == nil {
			continue
		}
		w := weighted{p, 1}
		if given.Weight != nil && *given.Weight != 0 {
			w.weight = *given.Weight
		}
		result = append(result, w)
	}
	return result
}
