package podcontrol

import (
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	"howdah.dev/kit/object"
)

// Names returns n names for new pods of the owner, each made of generateName: first those whose creation may have landed
// already, so that trying again cannot make a second pod.
func (c *Control) Names(owner Owner, generateName string, n int) []string {
	prefix := object.NamePrefix(generateName)
	names := make([]string, 0, n)
	taken := map[string]bool{}
	add := func(name string) {
		if _, exists := c.pods.Get(owner.GetNamespace(), name); !exists && !taken[name] {
			taken[name] = true
			names = append(names, name)
		}
	}
	for _, name := range c.expect.takeUnsure(owner.GetUID(), prefix, n) {
		add(name)
	}
	for len(names) < n {
		add(prefix + rand.String(object.SuffixLength))
	}
	return names
}

// GenerateName is what an owner's pods say that their names were made of: all of its name, however much of it fits into theirs, and a dash where a
// name may be that long.
func GenerateName(owner string) string {
	if len(owner) == validation.DNS1123SubdomainMaxLength {
		return owner
	}
	return owner + "-"
}
