package route

import "strings"

// names is a set of host names, some of them wildcards.
type names struct {
	exact, wildcard map[string]bool // the latter without "*."
	all             bool
}

func newNames() *names { return &names{exact: map[string]bool{}, wildcard: map[string]bool{}} }

// add adds a name, "*.domain" for all names one label below domain, or "" for all names.
func (n *names) add(name string) {
	domain, wild := strings.CutPrefix(name, "*.")
	switch {
	case name == "":
		n.all = true
	case wild:
		n.wildcard[domain] = true
	default:
		n.exact[name] = true
	}
}

// has reports whether a name is in the set.
func (n *names) has(name string) bool {
	if n == nil {
		return false
	}
	_, domain, _ := strings.Cut(name, ".")
	return n.all || n.exact[name] || n.wildcard[domain]
}
