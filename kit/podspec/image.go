package podspec

import (
	"regexp"
	"strings"
)

// The grammar of image references: [domain/]path[:tag][@digest].
const (
	domainLabel = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	domainName  = `(?:` + domainLabel + `(?:\.` + domainLabel + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`
	pathElement = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
	imageTag    = `\w[\w.-]{0,127}`
	digest      = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}`
)

var (
	reference = regexp.MustCompile(`^((?:` + domainName + `/)?` + pathElement + `(?:/` + pathElement + `)*)(?::` + imageTag + `)?(?:@` + digest + `)?$`)
	imageID   = regexp.MustCompile(`^[a-f0-9]{64}$`)
)

// longestImageName bounds the name without tag and digest.
const longestImageName = 255

// wellFormed reports a reference that follows the grammar.
func wellFormed(image string) bool {
	parts := reference.FindStringSubmatch(image)
	return parts != nil && len(parts[1]) <= longestImageName && !imageID.MatchString(image)
}

// tagOf returns the tag, and whether there is a digest.
func tagOf(image string) (tag string, digested bool) {
	name, _, digested := strings.Cut(image, "@")
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		tag = name[colon+1:]
	}
	return tag, digested
}
