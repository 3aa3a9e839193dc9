package stream

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A target sees who asked and for what, whatever the client says of that.
func TestForwarded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		header map[string]string
		path   string
	}{
		"a client":          {nil, "192.0.2.1"},
		"a proxy":           {map[string]string{"X-Forwarded-For": "198.51.100.7"}, "198.51.100.7, 192.0.2.1"},
		"who tells stories": {map[string]string{"X-Forwarded-Host": "else", "X-Forwarded-Uri": "/else", "X-Forwarded-Proto": "http"}, "192.0.2.1"},
	} {
		r := httptest.NewRequest(http.MethodGet, "https://here/a%20b?c=d", nil)
		for key, value := range tt.header {
			r.Header.Set(key, value)
		}
		got := map[string]string{}
		for _, h := range (&session{r: r}).forwarded(false) {
			got[h.GetName()] += h.GetValue()
		}
		want := map[string]string{
			"X-Forwarded-For": tt.path, "X-Forwarded-Host": "here", "X-Forwarded-Proto": "https", "X-Forwarded-Uri": "/a%20b", "Content-Length": "0",
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
