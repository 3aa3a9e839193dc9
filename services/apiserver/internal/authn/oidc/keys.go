package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// keyFetches is a transport that notes how attempts to fetch an issuer's keys ended.
type keyFetches struct {
	http.RoundTripper
	provider *Provider
	run      context.Context // while the provider is in force
	url      string          // of the keys
}

// RoundTrip implements http.RoundTripper.
func (f *keyFetches) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.RoundTripper.RoundTrip(r)
	if r.URL.String() != f.url {
		return resp, err
	}
	note := func(keys []byte, err error) {
		f.provider.Metrics.fetchedKeys(f.run, f.provider.Issuer.URL, keys, f.provider.Clock.Now(), err)
	}
	switch {
	case err != nil:
		note(nil, err)
		return nil, err
	case resp.StatusCode != http.StatusOK:
		note(nil, fmt.Errorf("the keys: %s", resp.Status))
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	keys, err := io.ReadAll(io.LimitReader(resp.Body, largest))
	if err != nil {
		note(nil, err)
		return nil, err
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	note(keys, json.Unmarshal(keys, &set)) // who verifies tells what is wrong with them
	resp.Body = io.NopCloser(bytes.NewReader(keys))
	return resp, nil
}
