package podcontrol

import "k8s.io/apimachinery/pkg/util/rand"

// suffix is how many letters follow the prefix of a generated name.
const suffix = 5

// Names returns n names for new pods of the owner, each a prefix and five letters: first those whose creation may have landed
// already, so that trying again cannot make a second pod.
func (c *Control) Names(owner Owner, generateName string, n int) []string {
	names := make([]string, 0, n)
	taken := map[string]bool{}
	add := func(name string) {
		if _, exists := c.pods.Get(owner.GetNamespace(), name); !exists && !taken[name] {
			taken[name] = true
			names = append(names, name)
		}
	}
	for _, name := range c.expect.takeUnsure(owner.GetUID(), generateName, n) {
		add(name)
	}
	for len(names) < n {
		add(generateName + rand.String(suffix))
	}
	return names
}

// GenerateName is the prefix of names of an owner's pods, as short as a host name with five more letters needs it.
func GenerateName(owner string) string {
	p := owner + "-"
	return p[:min(len(p), 58)]
}
