package aggregate

import (
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"howdah.dev/services/apiserver/internal/itself"
)

// document is what an extension API server tells at a path, as it is served here; without a body it tells nothing.
type document struct {
	body []byte
	hash string // of the body
	etag string // by which the extension API server names what it told
}

func newDocument(body []byte, etag string) document {
	return document{body: body, hash: fmt.Sprintf("%X", sha512.Sum512(body)), etag: etag}
}

// fetch returns the JSON at a path in the form in which it is served here, or what was told before where the server does not say what there is now. A server need
// not have the document.
func (a *Aggregator) fetch(ctx context.Context, s *apiregistrationv1.APIService, path string, before document, form func([]byte) ([]byte, error)) document {
	got, err := a.get(ctx, s, path, "application/json", before.etag)
	var refused badStatus
	switch {
	case got.unchanged, err != nil && (!errors.As(err, &refused) || refused.code >= 500):
		return before
	case err != nil || !strings.HasPrefix(got.header.Get("Content-Type"), "application/json"):
		return document{}
	}
	body, err := form(got.body)
	if err != nil {
		return document{}
	}
	return newDocument(body, got.header.Get("Etag"))
}

// answer is what an extension API server says to a request of the apiserver itself.
type answer struct {
	body      []byte
	header    http.Header
	unchanged bool // since what the request named
}

// badStatus is an answer that is no document.
type badStatus struct {
	url  string
	code int
}

func (e badStatus) Error() string { return fmt.Sprintf("bad status from %s: %d", e.url, e.code) }

// get reads a document of the extension API server as the apiserver itself, unless it is still the one of an etag; an empty accept takes it in whatever form.
func (a *Aggregator) get(ctx context.Context, s *apiregistrationv1.APIService, path, accept, etag string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	t, err := a.transport(s)
	if err != nil {
		return answer{}, err
	}
	address := a.url(s, path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return answer{}, err
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	request.Header.Set("User-Agent", itself.Name)
	identify(request, &self)
	response, err := t.RoundTrip(request)
	if err != nil {
		return answer{}, &url.Error{Op: "Get", URL: address, Err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, err
	case etag != "" && response.StatusCode == http.StatusNotModified:
		return answer{unchanged: true}, nil
	case response.StatusCode < 200 || response.StatusCode > 299:
		return answer{}, badStatus{address, response.StatusCode}
	case len(body) > maxAnswer:
		return answer{}, errors.New("the document is too large")
	}
	return answer{body: body, header: response.Header}, nil
}
