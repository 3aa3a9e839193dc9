// Package nodelog answers questions for the logs of the node's services, as Kubernetes' NodeLogQuery asks them: what journald has of a service,
// or else a file below /var/log.
package nodelog

import (
	"errors"
	"fmt"
	"net/url"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxServices = 4
	maxName     = 256
	maxTail     = 100_000
)

// Query is a question. Services, or one file, are asked for; all else narrows down what is shown of services.
type Query struct {
	Services, Files []string
	Options
}

// Options narrow down what journald shows.
type Options struct {
	Since, Until *time.Time
	// Tail is how many lines from the end; Boot is which boot, 0 the last one, and those before it below.
	Tail, Boot *int
	Pattern    string
}

// Parse reads the parameters of a URL. The answer is nil where nothing is asked.
func Parse(values url.Values) (*Query, field.ErrorList) {
	var q Query
	var errs field.ErrorList
	for _, name := range values["query"] {
		switch {
		case strings.ContainsAny(name, `/\`):
			q.Files = append(q.Files, name)
		case strings.TrimSpace(name) != "":
			q.Services = append(q.Services, name)
		}
	}
	if asked, ok := values["query"]; ok && len(q.Files)+len(q.Services) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("query"), asked, "may not be empty"))
	}
	for name, to := range map[string]**time.Time{"sinceTime": &q.Since, "untilTime": &q.Until} {
		text := values.Get(name)
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, "invalid time format"))
			continue
		}
		*to = &at
	}
	for name, to := range map[string]**int{"boot": &q.Boot, "tailLines": &q.Tail} {
		text := values.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(name), text, err.Error()))
			continue
		}
		*to = &n
	}
	q.Pattern = values.Get("pattern")
	if len(errs) > 0 || len(q.Files)+len(q.Services) == 0 && q.Options == (Options{}) {
		return nil, errs
	}
	return &q, nil
}

// Check says what of a question is wrong. there says why a file cannot be shown.
func (q *Query) Check(there func(file string) error) field.ErrorList {
	asked := field.NewPath("query")
	var errs field.ErrorList
	for _, name := range q.Services {
		if err := checkName(name); err != nil {
			errs = append(errs, field.Invalid(asked, name, err.Error()))
		}
	}
	if len(q.Services) > maxServices {
		errs = append(errs, field.TooMany(asked, len(q.Services), maxServices))
	}
	switch {
	case len(q.Files) == 0 && len(q.Services) == 0:
		errs = append(errs, field.Required(asked, "cannot be empty with options"))
	case len(q.Files) > 0 && len(q.Services) > 0:
		errs = append(errs, field.Invalid(asked, fmt.Sprintf("%v, %v", q.Files, q.Services), "cannot specify a file and service"))
	case len(q.Files) > 1:
		errs = append(errs, field.Invalid(asked, q.Files, "cannot specify more than one file"))
	case len(q.Files) == 1 && q.Options != (Options{}):
		errs = append(errs, field.Invalid(asked, q.Files, "cannot specify file with options"))
	case len(q.Files) == 1:
		if err := there(q.File()); err != nil {
			errs = append(errs, field.Invalid(asked, q.Files, err.Error()))
		}
	}
	return append(errs, q.Options.check()...)
}

func (o *Options) check() field.ErrorList {
	var errs field.ErrorList
	if o.Since != nil && o.Until != nil && o.Since.After(*o.Until) {
		errs = append(errs, field.Invalid(field.NewPath("untilTime"), o.Until, "must be after `sinceTime`"))
	}
	if o.Boot != nil && *o.Boot > 0 {
		errs = append(errs, field.Invalid(field.NewPath("boot"), *o.Boot, "must be less than 1"))
	}
	if o.Tail != nil {
		for _, problem := range validation.IsInRange(*o.Tail, 0, maxTail) {
			errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.Tail, problem))
		}
	}
	// journalctl reads it as PCRE2. What both know is enough for logs, and keeps what is no pattern at all from it.
	if _, err := syntax.Parse(o.Pattern, syntax.Perl); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("pattern"), o.Pattern, err.Error()))
	}
	return errs
}

// checkName lets only names through that mean nothing else to journalctl than a unit.
func checkName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("length must be less than %d", maxName)
	}
	for _, c := range name {
		known := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_.:@", c)
		if !known {
			return errors.New("input contains unsupported characters")
		}
	}
	return nil
}

// File is the file that is asked for, below the folder of the logs.
func (q *Query) File() string {
	return strings.TrimLeft(strings.ReplaceAll(q.Files[0], `\`, "/"), "/")
}

// arguments are journalctl's. Moments are seconds since 1970, which mean the same in every time zone.
func (q *Query) arguments(services []string) []string {
	out := []string{"--utc", "--no-pager", "--output=short-precise"}
	if q.Since != nil {
		out = append(out, fmt.Sprintf("--since=@%d", q.Since.Unix()))
	}
	if q.Until != nil {
		out = append(out, fmt.Sprintf("--until=@%d", q.Until.Unix()))
	}
	if q.Tail != nil {
		out = append(out, fmt.Sprintf("--lines=%d", *q.Tail))
	}
	for _, name := range services {
		out = append(out, "--unit="+name)
	}
	if q.Pattern != "" {
		out = append(out, "--grep="+q.Pattern)
	}
	if q.Boot != nil {
		out = append(out, fmt.Sprintf("--boot=%d", *q.Boot))
	}
	return out
}
