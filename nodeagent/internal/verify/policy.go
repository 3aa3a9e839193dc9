// Package verify decides whether a pod may use an image that is on its node already: it keeps with whose credentials images were pulled, and lets
// others prove that they may have them too.
package verify

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
)

// Policy says which images on the node a pod has to prove that it may use.
type Policy string

// The policies are those of the kubelet's imagePullCredentialsVerificationPolicy.
const (
	NeverVerify                  Policy = "NeverVerify"
	NeverVerifyPreloadedImages   Policy = "NeverVerifyPreloadedImages"
	NeverVerifyAllowlistedImages Policy = "NeverVerifyAllowlistedImages"
	AlwaysVerify                 Policy = "AlwaysVerify"
)

// Default is the kubelet's.
const Default = NeverVerifyPreloadedImages

// Options are an agent's settings of it.
type Options struct {
	// Policy; default Default.
	Policy Policy
	// Allowlist are the images of NeverVerifyAllowlistedImages, without tag or digest, or beginnings of such that end with "/*".
	Allowlist []string
}

// Rules are options that hold; those of no options are the default ones.
type Rules struct {
	policy   Policy
	exact    map[string]bool
	prefixes []string
}

// Rules checks the options and reports all problems at once.
func (o Options) Rules() (Rules, error) {
	r := Rules{policy: o.Policy, exact: map[string]bool{}}
	var problems []error
	switch o.Policy {
	case "":
		r.policy = Default
	case NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify:
	default:
		problems = append(problems, fmt.Errorf("policy of verifying image pull credentials: %q is none of %s, %s, %s, %s",
			o.Policy, NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify))
	}
	if len(o.Allowlist) > 0 && r.policy != NeverVerifyAllowlistedImages {
		problems = append(problems, fmt.Errorf("a list of images that are not verified needs the policy %s", NeverVerifyAllowlistedImages))
	}
	for _, pattern := range o.Allowlist {
		if err := r.add(pattern); err != nil {
			problems = append(problems, fmt.Errorf("image that is not verified, %q: %w", pattern, err))
		}
	}
	return r, errors.Join(problems...)
}

func (r *Rules) add(pattern string) error {
	prefix, wild := strings.CutSuffix(pattern, "*")
	switch {
	case pattern != strings.TrimSpace(pattern):
		return errors.New("there are spaces around it")
	case strings.Contains(prefix, "*") || wild && !strings.HasSuffix(prefix, "/"):
		return errors.New("an asterisk may only stand at the end, after a slash")
	case wild && prefix == "/":
		return errors.New("it names no registry")
	case wild:
		r.prefixes = append(r.prefixes, prefix)
		return nil
	}
	named, err := reference.ParseNormalizedNamed(pattern)
	if err != nil {
		return err
	}
	if !reference.IsNameOnly(named) {
		return errors.New("it has a tag or a digest")
	}
	r.exact[named.Name()] = true
	return nil
}

// Asks reports whether a pod has to prove that it may use an image. written is how the pod names it; pulled says that the agent has pulled it, or may have.
func (r Rules) Asks(written string, pulled bool) bool {
	switch r.policy {
	case NeverVerify:
		return false
	case NeverVerifyPreloadedImages, "":
		return pulled
	case NeverVerifyAllowlistedImages:
		return !r.listed(written)
	}
	return true
}

// listed compares the full name with the list, and with its beginnings the name as it is written, too.
func (r Rules) listed(written string) bool {
	full := repository(written)
	if full == "" {
		return false
	}
	if r.exact[full] {
		return true
	}
	for _, prefix := range r.prefixes {
		if strings.HasPrefix(full, prefix) || strings.HasPrefix(written, prefix) {
			return true
		}
	}
	return false
}

// repository is the full name of an image without tag and digest; empty is the name of none.
func repository(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return ""
	}
	return named.Name()
}

// untagged is the name of an image by its digest alone, where it has one: so the runtime lists it.
func untagged(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name
	}
	digested, ok := named.(reference.Digested)
	if !ok {
		return name
	}
	return named.Name() + "@" + digested.Digest().String()
}
