package lb

import (
	"slices"
	"time"

	"howdah.dev/nodeagent/bpf"
)

// The kinds of owner.
const (
	kindService = "Service"
	kindPod     = "Pod"
)

// owner is the object whose frontends these are.
type owner struct {
	kind, namespace, name string
}

func (o owner) String() string { return o.kind + " " + o.namespace + "/" + o.name }

// claims keeps who wants which frontend. More than one may want the same; the oldest has it.
type claims struct {
	tables map[owner]Table
	born   map[owner]time.Time
	by     map[Frontend][]owner
}

func newClaims() *claims {
	return &claims{tables: map[owner]Table{}, born: map[owner]time.Time{}, by: map[Frontend][]owner{}}
}

// set replaces an owner's table (an empty one removes it) and returns the frontends whose entry may have changed.
func (c *claims) set(o owner, born time.Time, table Table) []Frontend {
	var touched []Frontend
	for f := range c.tables[o] {
		touched = append(touched, f)
		if _, still := table[f]; !still {
			c.by[f] = slices.DeleteFunc(c.by[f], func(x owner) bool { return x == o })
			if len(c.by[f]) == 0 {
				delete(c.by, f)
			}
		}
	}
	old := c.tables[o]
	delete(c.tables, o)
	delete(c.born, o)
	if len(table) > 0 {
		c.tables[o], c.born[o] = table, born
	}
	for f := range table {
		if _, had := old[f]; !had {
			touched = append(touched, f)
			c.by[f] = append(c.by[f], o)
		}
		slices.SortFunc(c.by[f], func(a, b owner) int {
			if d := c.born[a].Compare(c.born[b]); d != 0 {
				return d
			}
			return compareOwners(a, b)
		})
	}
	return touched
}

// winner is the entry that a frontend is to have.
func (c *claims) winner(f Frontend) (Entry, bool) {
	owners := c.by[f]
	if len(owners) == 0 {
		return Entry{}, false
	}
	return c.tables[owners[0]][f], true
}

func compareOwners(a, b owner) int {
	switch {
	case a.String() < b.String():
		return -1
	case a.String() > b.String():
		return 1
	}
	return 0
}

// sources are the allowed sources of every entry in force.
func (c *claims) sources() map[bpf.LBSourceKey]bool {
	out := map[bpf.LBSourceKey]bool{}
	for f := range c.by {
		e, _ := c.winner(f)
		for _, p := range e.Sources {
			out[encodeSource(identity(e.Service), p)] = true
		}
	}
	return out
}

func hasSources(t Table) bool {
	for _, e := range t {
		if len(e.Sources) > 0 {
			return true
		}
	}
	return false
}
