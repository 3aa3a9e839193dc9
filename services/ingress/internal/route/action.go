package route

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// Rule is what is done with the requests that one of a route's matches takes.
type Rule struct {
	Filters Filters
	Targets []Target
	// Timeout is that of a request, from its header to the end of its answer; 0: none of its own. Patient: an endpoint may take as long as it likes, or as
	// Timeout says, in place of the proxy's own limit.
	Timeout time.Duration
	Patient bool
	// Code is that of the answer where the rule leads nowhere; 0: it leads somewhere.
	Code int
	// sum is that of the targets' weights.
	sum int64
}

// Target is one of the backends of a rule.
type Target struct {
	Backend *Backend
	Weight  int64
	Filters Filters
}

// Target chooses a backend by the weights; nil where all are 0.
func (r *Rule) Target() *Target {
	if r.sum <= 0 {
		return nil
	}
	if len(r.Targets) == 1 {
		return &r.Targets[0]
	}
	n := rand.Int64N(r.sum)
	for i := range r.Targets {
		if n -= r.Targets[i].Weight; n < 0 {
			return &r.Targets[i]
		}
	}
	return nil
}

// Filters change requests and answers on their way.
type Filters struct {
	Request, Response []Headers
	Redirect          *Redirect
	Rewrite           *Rewrite
	Mirrors           []Mirror
	CORS              *CORS
}

// Headers are changes of headers. Names are in their canonical form.
type Headers struct {
	Set, Add []Header
	Remove   []string
}

// Header is a header's line.
type Header struct{ Name, Value string }

// Apply changes headers.
func (h *Headers) Apply(to http.Header) {
	for _, set := range h.Set {
		to.Set(set.Name, set.Value)
	}
	for _, add := range h.Add {
		to.Add(add.Name, add.Value)
	}
	for _, name := range h.Remove {
		to.Del(name)
	}
}

// Redirect answers with another place. What is empty is as in the request.
type Redirect struct {
	Scheme, Host string
	Port         int32
	Path         *PathChange
	Code         int
}

// Rewrite changes a request's host and path.
type Rewrite struct {
	Host string
	Path *PathChange
}

// PathChange replaces a path, or what a route's prefix matched of it.
type PathChange struct {
	Full   *string
	Prefix string
}

// Of returns the path in place of one that a route took, both percent-encoded.
func (c *PathChange) Of(path string, r *Route) string {
	if c.Full != nil {
		return *c.Full
	}
	rest := strings.TrimPrefix(path, "/")
	gone := false // the whole path was matched
	for range elements(canonical(r.Path)) {
		var more bool
		if _, rest, more = strings.Cut(rest, "/"); !more {
			gone = true
		}
	}
	prefix := strings.TrimSuffix(c.Prefix, "/")
	if gone && prefix != "" {
		return prefix
	}
	return prefix + "/" + rest
}

// Mirror sends a copy of some requests to a backend too, whose answers nobody sees.
type Mirror struct {
	Backend *Backend
	// Of so many requests so many are copied.
	Share, Of int32
}

// Chosen reports whether a request is to be copied.
func (m *Mirror) Chosen() bool { return m.Share >= m.Of || rand.Int32N(m.Of) < m.Share }

// CORS says which pages of other origins may make requests.
type CORS struct {
	Origins     []string
	Credentials bool
	// Methods and Headers may be "*" alone.
	Methods, Headers, Expose []string
	MaxAge                   int32
}

// Origin returns what to answer a page of an origin with, "" where it may not ask.
func (c *CORS) Origin(origin string) string {
	if origin == "" {
		return ""
	}
	for _, allowed := range c.Origins {
		if allowed == "*" && !c.Credentials {
			return "*"
		}
		if allowed == "*" || strings.EqualFold(allowed, origin) || originBelow(allowed, origin) {
			return origin
		}
	}
	return ""
}

// originBelow reports whether an origin's host is one that a wildcard stands for: "https://*.example.com".
func originBelow(allowed, origin string) bool {
	scheme, domain, wild := strings.Cut(strings.ToLower(allowed), "://*")
	rest, ok := strings.CutPrefix(strings.ToLower(origin), scheme+"://")
	return wild && ok && len(rest) > len(domain) && strings.HasSuffix(rest, domain)
}
