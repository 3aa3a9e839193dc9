package controllers

import "slices"

// optional are the controllers that run only where --controllers names them, as in Kubernetes, or because what they do is a thing of the past: an asterisk or a group does not.
func optional(name string) bool {
	return slices.Contains([]string{"bootstrapsigner", "tokencleaner", "volumerecycler"}, name)
}
