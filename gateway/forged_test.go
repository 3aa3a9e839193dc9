package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"howdah.dev/gateway/internal/identity"
)

func TestForged(t *testing.T) {
	t.Parallel()
	jane, bearer, nobody := identity.Caller{User: "jane"}, identity.Caller{Credential: "Bearer x"}, identity.Caller{User: identity.Anonymous}
	const browser = "Mozilla/5.0"
	upgrade := func(header http.Header) http.Header {
		header.Set("Connection", "Upgrade")
		header.Set("Upgrade", "websocket")
		return header
	}
	for name, tt := range map[string]struct {
		caller identity.Caller
		method string
		header http.Header
		want   bool
	}{
		"kubectl":                          {jane, "POST", http.Header{}, false},
		"the console":                      {jane, "POST", http.Header{"Sec-Fetch-Site": {"same-origin"}}, false},
		"another site":                     {jane, "POST", http.Header{"Sec-Fetch-Site": {"cross-site"}}, true},
		"another port of this machine":     {jane, "DELETE", http.Header{"Sec-Fetch-Site": {"same-site"}}, true},
		"another site, of an old browser":  {jane, "POST", http.Header{"Origin": {"https://evil.example"}}, true},
		"another site reads":               {jane, "GET", http.Header{"Sec-Fetch-Site": {"cross-site"}}, false},
		"another site has a token":         {bearer, "POST", http.Header{"Sec-Fetch-Site": {"cross-site"}}, false},
		"another site is nobody":           {nobody, "POST", http.Header{"Sec-Fetch-Site": {"cross-site"}}, false},
		"WebSocket of the console":         {jane, "GET", upgrade(http.Header{"Origin": {"https://example.com"}, "User-Agent": {browser}}), false},
		"WebSocket of a client":            {jane, "GET", upgrade(http.Header{"Origin": {"http://localhost"}, "User-Agent": {"Go-http-client/1.1"}}), false},
		"WebSocket of another site":        {jane, "GET", upgrade(http.Header{"Origin": {"https://evil.example"}, "User-Agent": {browser}}), true},
		"WebSocket of another site, told":  {jane, "GET", upgrade(http.Header{"Sec-Fetch-Site": {"cross-site"}}), true},
		"WebSocket of the console, told":   {jane, "GET", upgrade(http.Header{"Sec-Fetch-Site": {"same-origin"}}), false},
		"WebSocket of a page without site": {jane, "GET", upgrade(http.Header{"Origin": {"null"}, "User-Agent": {browser}}), true},
	} {
		r := httptest.NewRequest(tt.method, "https://example.com/api/v1/namespaces/default/pods/p/exec", nil)
		r.Header = tt.header
		if got := forged(r, tt.caller); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
