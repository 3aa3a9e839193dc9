package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/apistatus"
)

// checkTimeout bounds all checks of one probe.
const checkTimeout = 10 * time.Second

func isHealth(path string) bool {
	root, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return root == "healthz" || root == "livez" || root == "readyz"
}

// health answers /healthz, /livez and /readyz in Kubernetes' words: all checks (?verbose lists them, ?exclude=NAME leaves one
// out), or one by its name as in /readyz/store. What fails is a 500 whose message is the text; why, is told of one check only, and logged.
func (s *Server) health(ctx context.Context, path, query string) (*document, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	probe, only, single := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	checks := s.checksOf(probe)
	if single {
		for _, c := range checks {
			if c.Name != only {
				continue
			}
			err := c.Run(ctx)
			s.checks.Observe(probe, c.Name, err)
			if err != nil {
				return nil, unhealthy("internal server error: " + err.Error())
			}
			return plainText("ok"), nil
		}
		return nil, pageNotFound()
	}
	options, _ := url.ParseQuery(query) // what does not parse is left out
	return s.report(ctx, probe, checks, options)
}

// Probe counts the outcomes of all checks once, so that /metrics/slis has them where nobody has asked for the server's health.
func (s *Server) Probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	for _, probe := range []string{"healthz", "livez", "readyz"} {
		for _, c := range s.checksOf(probe) {
			s.checks.Observe(probe, c.Name, c.Run(ctx))
		}
	}
}

// checksOf are the checks of a probe.
func (s *Server) checksOf(probe string) []Check {
	checks := slices.Clone(s.cfg.Checks)
	if probe == "livez" {
		checks = slices.DeleteFunc(checks, func(c Check) bool { return !c.Live })
		for i := range checks {
			if checks[i].Alive != nil {
				checks[i].Run = checks[i].Alive
			}
		}
	}
	if probe == "healthz" {
		checks = slices.DeleteFunc(checks, func(c Check) bool { return c.Ready })
	}
	return checks
}

func (s *Server) report(ctx context.Context, probe string, checks []Check, options url.Values) (*document, error) {
	var text strings.Builder
	var failed []string
	excluded := map[string]bool{}
	for _, name := range options["exclude"] {
		excluded[name] = true
	}
	for _, c := range checks {
		if excluded[c.Name] {
			delete(excluded, c.Name)
			fmt.Fprintf(&text, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		err := c.Run(ctx)
		s.checks.Observe(probe, c.Name, err)
		if err != nil {
			slog.WarnContext(ctx, "health check failed", "probe", probe, "check", c.Name, "err", err)
			failed = append(failed, c.Name)
			fmt.Fprintf(&text, "[-]%s failed: reason withheld\n", c.Name)
			continue
		}
		fmt.Fprintf(&text, "[+]%s ok\n", c.Name)
	}
	if len(excluded) > 0 {
		var unknown []string
		for name := range excluded {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
		slices.Sort(unknown)
		fmt.Fprintf(&text, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(unknown, ","))
	}
	if len(failed) > 0 {
		return nil, unhealthy(fmt.Sprintf("%s%s check failed", text.String(), probe))
	}
	if _, verbose := options["verbose"]; !verbose {
		return plainText("ok"), nil
	}
	return plainText(fmt.Sprintf("%s%s check passed\n", text.String(), probe)), nil
}

func plainText(text string) *document {
	return &document{body: []byte(text), contentType: "text/plain; charset=utf-8"}
}

func unhealthy(text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError, Message: text,
	}}
}

// pageNotFound is the 404 in text that Kubernetes answers for a check which is not there.
func pageNotFound() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound, Message: apistatus.PageNotFound,
	}}
}
