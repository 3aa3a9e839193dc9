package registry

import "strings"

// Stage is how far an API version has come.
type Stage string

// The stages. What is Stable is served unless it is switched off; the rest is not unless it is switched on.
const (
	Stable Stage = "stable"
	Beta   Stage = "beta"
	Alpha  Stage = "alpha"
	// Removed is what the Kubernetes release that this API is of does not serve any more.
	Removed Stage = "removed"
)

// lastMinor is the release of Kubernetes 1 that this API is of.
const lastMinor = 36

// Stage returns how far the resource's version has come. When Kubernetes removes a version, its Go type says.
func (r *Resource) Stage() Stage {
	if r.Kind.Custom != nil || r.Kind.Extension {
		return Stable
	}
	if ends, ok := r.New().(interface{ APILifecycleRemoved() (major, minor int) }); ok {
		if major, minor := ends.APILifecycleRemoved(); major == 1 && minor <= lastMinor {
			return Removed
		}
	}
	switch version := r.GVK.Version; {
	case strings.Contains(version, "beta"):
		return Beta
	case strings.Contains(version, "alpha"):
		return Alpha
	}
	return Stable
}
