package route

import "strings"

// Hostnames of the Gateway API: a name, "*.domain" for all names below a domain, or "" for all. In lower case.

// covers reports whether a hostname stands for a name.
func covers(hostname, name string) bool {
	if hostname == "" || hostname == name {
		return true
	}
	domain, wild := strings.CutPrefix(hostname, "*")
	return wild && len(name) > len(domain) && strings.HasSuffix(name, domain)
}

// within returns the hostname for what both stand for, or false where that is nothing.
func within(a, b string) (string, bool) {
	wildA, wildB := strings.HasPrefix(a, "*."), strings.HasPrefix(b, "*.")
	switch {
	case a == "" || a == b:
		return b, true
	case b == "":
		return a, true
	case wildA && wildB && strings.HasSuffix(a, b[1:]):
		return a, true
	case wildA && wildB && strings.HasSuffix(b, a[1:]):
		return b, true
	case wildA && !wildB && covers(a, b):
		return b, true
	case wildB && !wildA && covers(b, a):
		return a, true
	}
	return "", false
}

// nearer reports whether a hostname is for fewer names than another one, all of which that one is for, too.
func nearer(a, b string) bool {
	both, ok := within(a, b)
	return ok && both == a && a != b
}

// domains yields the names that a name is below, the longest first, with which wildcards are looked up.
func domains(name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for {
			_, domain, ok := strings.Cut(name, ".")
			if !ok || !yield(domain) {
				return
			}
			name = domain
		}
	}
}
