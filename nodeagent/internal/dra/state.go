package dra

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/statefile"
)

// key names a claim.
type key struct{ Namespace, Name string }

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Claim is one that is prepared on the node, or might be: drivers were asked to, or are about to be.
type Claim struct {
	Namespace, Name string
	UID             types.UID
	// Pods are those of the node that use it.
	Pods []types.UID
	// Drivers have what each of them has told of its devices; a driver may have told of none.
	Drivers map[string][]Device
	// Prepared says that all drivers have answered.
	Prepared bool

	// sure says that they have in this life of the agent. Who claims it later asks them again otherwise: what they made may have gone with the node's last start.
	sure bool
}

// Device is what a driver tells of a device of a claim.
type Device struct {
	Pool, Name string
	ShareID    *string `json:",omitempty"`
	// Requests of the claim that it is for; none is all.
	Requests []string `json:",omitempty"`
	// CDI are the names by which the runtime knows it.
	CDI []string `json:",omitempty"`
}

// state is what is prepared. Its claims are never changed; others take their place.
type state map[key]*Claim

// of returns the claims that a pod uses, by name.
func (s state) of(pod types.UID) []*Claim {
	var out []*Claim
	for _, c := range s {
		if slices.Contains(c.Pods, pod) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *Claim) int { return compareKeys(a.key(), b.key()) })
	return out
}

// pods are all that use some claim.
func (s state) pods() []types.UID {
	all := map[types.UID]bool{}
	for _, c := range s {
		for _, uid := range c.Pods {
			all[uid] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (c *Claim) key() key { return key{c.Namespace, c.Name} }

func (c *Claim) clone() *Claim {
	out := *c
	out.Pods, out.Drivers = slices.Clone(c.Pods), maps.Clone(c.Drivers)
	return &out
}

// saved is the file that outlives the agent.
type saved struct{ Claims []*Claim }

func (s state) save(path string) error {
	out := saved{Claims: []*Claim{}}
	for _, k := range slices.SortedFunc(maps.Keys(s), compareKeys) {
		out.Claims = append(out.Claims, s[k])
	}
	return statefile.Write(path, out)
}

// readState returns what the file says. Without it nobody would take back what is prepared, so one that is broken is an error.
func readState(path string) (state, error) {
	var from saved
	if err := statefile.Read(path, &from); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("which devices of claims are prepared (drain the node and remove the file): %w", err)
	}
	out := state{}
	for _, c := range from.Claims {
		if c.Drivers == nil {
			c.Drivers = map[string][]Device{}
		}
		out[c.key()] = c
	}
	return out, nil
}
