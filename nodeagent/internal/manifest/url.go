package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// answerTimeout is how long an answer may take.
const answerTimeout = 10 * time.Second

// URL reads the manifest, of one pod or of a list, that a web server has.
type URL struct {
	URL    string
	Header http.Header
	Node   string
	Every  time.Duration
	Clock  clock.WithTicker
	Client *http.Client
	// Report is told what was wrong with the answer, nil where nothing was.
	Report func(place string, err error)
}

// Name implements source.Manifests.
func (*URL) Name() string { return HTTP }

// Run asks every now and then, and tells of the pods of every answer that is right. What ran before runs on where none is.
func (u *URL) Run(ctx context.Context, tell func([]*corev1.Pod)) error {
	for {
		pods, err := u.read(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if u.Report(u.place(), err); err == nil {
			tell(pods)
		}
		timer := u.Clock.NewTimer(u.Every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

// place is the URL without the password that it may have.
func (u *URL) place() string {
	parsed, err := url.Parse(u.URL)
	if err != nil {
		return "URL"
	}
	return parsed.Redacted()
}

func (u *URL) read(ctx context.Context) ([]*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.URL, nil)
	if err != nil {
		return nil, err
	}
	for name, values := range u.Header {
		request.Header[name] = values
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := u.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", response.Status)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, largest+1))
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, errors.New("the answer is empty")
	}
	return Read(data, Origin{Source: HTTP, Place: u.URL, Node: u.Node, Seen: u.Clock.Now()})
}
