// Package release names the release that a binary is of.
package release

// version is of the form vMAJOR.MINOR.PATCH: the release of Kubernetes whose API howdah speaks, and with it howdah's own. Who builds another release has the linker
// set it: -ldflags "-X howdah.dev/kit/release.version=v1.36.4".
var version = "v1.36.3"

// Version is this binary's.
func Version() string { return version }
