package flow

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/registry"
)

// Source is where a dispatcher finds its configuration.
type Source interface {
	// Revisions change with the objects.
	Revisions() [2]int64
	Objects() Objects
}

// Cached is what the watch cache holds of the two kinds.
type Cached struct{ schemas, levels *cache.Resource }

// FromCache returns the source of a table's kinds.
func FromCache(table *registry.Table, c *cache.Cache) Cached {
	var s Cached
	for _, k := range table.Kinds() {
		if k.GVK.Group != flowcontrolv1.GroupName {
			continue
		}
		switch k.Resource {
		case "flowschemas":
			s.schemas = c.For(k)
		case "prioritylevelconfigurations":
			s.levels = c.For(k)
		}
	}
	return s
}

// Revisions implements Source.
func (s Cached) Revisions() [2]int64 { return [2]int64{s.schemas.Last(), s.levels.Last()} }

// Objects implements Source.
func (s Cached) Objects() Objects {
	return Objects{objects[*flowcontrolv1.FlowSchema](s.schemas), objects[*flowcontrolv1.PriorityLevelConfiguration](s.levels)}
}

func objects[T registry.Object](c *cache.Resource) []T {
	var out []T
	for _, item := range c.List(cache.Query{}).Items {
		if obj, err := item.Object(); err == nil {
			if t, ok := obj.(T); ok {
				out = append(out, t)
			}
		}
	}
	return out
}

// follow puts the source's newest configuration into force.
func (d *Dispatcher) follow() {
	if d.cfg.Source == nil {
		return
	}
	if seen := d.seen.Load(); seen != nil && *seen == d.cfg.Source.Revisions() {
		return
	}
	d.following.Lock()
	defer d.following.Unlock()
	now := d.cfg.Source.Revisions()
	if seen := d.seen.Load(); seen != nil && *seen == now {
		return
	}
	o := d.cfg.Source.Objects() // at least as new as now: nothing newer is missed
	d.Configure(o.Schemas, o.Levels)
	d.seen.Store(&now)
}
