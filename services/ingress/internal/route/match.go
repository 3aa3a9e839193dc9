package route

import (
	"net/textproto"
	"net/url"
	"regexp"
	"strings"
)

// conditions are what a match of a route asks of requests beside their host and path. nil asks nothing.
type conditions struct {
	method         string // "": any
	headers, query []valueMatch
}

// valueMatch is a header or a parameter of the query that must be there, with a value or one that an expression describes.
type valueMatch struct {
	name, value string
	expression  *regexp.Regexp
}

func (m *valueMatch) fits(value string) bool {
	if m.expression != nil {
		return m.expression.MatchString(value)
	}
	return value == m.value
}

// weight orders conditions: a method goes before headers, and these before parameters of the query. There are at most 16 of each.
func (c *conditions) weight() int {
	if c == nil {
		return 0
	}
	n := len(c.headers)<<8 + len(c.query)
	if c.method != "" {
		n += 1 << 16
	}
	return n
}

func (c *conditions) hold(q *Query) bool {
	if c == nil {
		return true
	}
	if c.method != "" && c.method != q.Method {
		return false
	}
	for n := range c.headers {
		value, ok := q.header(c.headers[n].name)
		if !ok || !c.headers[n].fits(value) {
			return false
		}
	}
	for n := range c.query {
		value, ok := q.parameter(c.query[n].name)
		if !ok || !c.query[n].fits(value) {
			return false
		}
	}
	return true
}

// header returns the value of a header in its canonical form. Several lines are one list.
func (q *Query) header(name string) (string, bool) {
	if name == "Host" {
		return q.Host, q.Host != ""
	}
	switch values := q.Header[name]; len(values) {
	case 0:
		return "", false
	case 1:
		return values[0], true
	default:
		return strings.Join(values, ","), true
	}
}

// parameter returns the first value of a parameter of the query.
func (q *Query) parameter(name string) (string, bool) {
	if q.values == nil {
		q.values = map[string]string{}
		for pair := range strings.SplitSeq(q.RawQuery, "&") {
			key, value, _ := strings.Cut(pair, "=")
			name, err1 := url.QueryUnescape(key)
			text, err2 := url.QueryUnescape(value)
			if _, had := q.values[name]; pair == "" || had || err1 != nil || err2 != nil {
				continue
			}
			q.values[name] = text
		}
	}
	value, ok := q.values[name]
	return value, ok
}

// pattern is the routes of a path that an expression describes.
type pattern struct {
	text       string
	expression *regexp.Regexp
	route      *Route
}

// pattern returns the place of the routes of an expression over whole paths.
func (h *host) pattern(text string, expression *regexp.Regexp) **Route {
	at := 0
	for ; at < len(h.patterns) && len(h.patterns[at].text) >= len(text); at++ {
		if h.patterns[at].text == text {
			return &h.patterns[at].route
		}
	}
	h.patterns = append(h.patterns[:at], append([]pattern{{text: text, expression: expression}}, h.patterns[at:]...)...)
	return &h.patterns[at].route
}

// expression compiles a regular expression over a whole value, once.
func (w *work) expression(text string) (*regexp.Regexp, error) {
	known := w.kept.expressions[text]
	if known == nil {
		known = w.builder.kept.expressions[text]
	}
	if known == nil {
		var err error
		if known, err = regexp.Compile("^(?:" + text + ")$"); err != nil {
			return nil, err
		}
	}
	w.kept.expressions[text] = known
	return known, nil
}

func canonicalHeader(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }
