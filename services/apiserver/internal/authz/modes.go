package authz

import "fmt"

// Modes are the authorizers that a configuration may name, by the names that --authorization-mode takes.
type Modes map[string]Authorizer

// Chain returns the named authorizers in order, behind the one for those whom nothing stops.
func (m Modes) Chain(names []string, always Authorizer) (Chain, error) {
	chain := Chain{always}
	seen := map[string]bool{}
	for _, name := range names {
		next, ok := m[name]
		if !ok {
			return nil, fmt.Errorf("%q is not a valid authorization mode", name)
		}
		if seen[name] {
			return nil, fmt.Errorf("authorization mode %q is named twice", name)
		}
		seen[name] = true
		chain = append(chain, next)
	}
	return chain, nil
}
