package authn

import (
	"slices"

	"k8s.io/utils/lru"
)

// rememberedModes is of how many callers it is known by which mode they last became somebody else.
const rememberedModes = 10000

// Modes remembers by which mode a caller last became somebody else: it is tried first, and why it is refused is what the caller is told. A
// nil *Modes remembers nothing.
type Modes struct{ last *lru.Cache }

// NewModes returns an empty memory.
func NewModes() *Modes { return &Modes{lru.New(rememberedModes)} }

func (m *Modes) remember(caller *User, by mode) {
	if m != nil {
		m.last.Add(caller.Name, by.name)
	}
}

// order returns the modes with the remembered one before the others.
func (m *Modes) order(caller *User, all []mode) []mode {
	if m == nil {
		return all
	}
	name, ok := m.last.Get(caller.Name)
	if !ok {
		return all
	}
	i := slices.IndexFunc(all, func(one mode) bool { return one.name == name })
	if i <= 0 {
		return all
	}
	first := all[i]
	return slices.Insert(slices.Delete(all, i, i+1), 0, first)
}
