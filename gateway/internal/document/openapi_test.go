package document

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// TestChangesOfASecond answers a client that knows the index by what is there, also where it changed in the second in which the client asked.
func TestChangesOfASecond(t *testing.T) {
	t.Parallel()
	h := &Handler{}
	get := func(known http.Header, etag, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, index, nil)
		if known != nil {
			r.Header.Set("If-Modified-Since", known.Get("Last-Modified"))
			r.Header.Set("If-None-Match", known.Get("Etag"))
		}
		w := httptest.NewRecorder()
		h.serveOpenAPI(w, r, &apiv1.DocumentResponse{Etag: etag, Object: []byte(body)})
		return w
	}
	first := get(nil, `"A"`, "one")
	if again := get(first.Header(), `"A"`, "one"); again.Code != http.StatusNotModified {
		t.Errorf("%d for what is known", again.Code)
	}
	if changed := get(first.Header(), `"B"`, "two"); changed.Code != http.StatusOK || changed.Body.String() != "two" {
		t.Errorf("%d %q after a change", changed.Code, changed.Body)
	}
}

// TestSightings remembers since when a document is as it is, and no more documents than it may.
func TestSightings(t *testing.T) {
	t.Parallel()
	var s sightings
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	for _, tt := range []struct {
		path, etag string
		now, want  int
	}{
		{"/openapi/v2", `"A"`, 0, 0}, {"/openapi/v2", `"A"`, 5, 0}, {"/openapi/v3", `"A"`, 6, 6}, {"/openapi/v2", `"B"`, 7, 7}, {"/openapi/v2", `"B"`, 8, 7},
	} {
		if got := s.since(tt.path, tt.etag, at(tt.now)); !got.Equal(at(tt.want)) {
			t.Errorf("%+v: since %v", tt, got)
		}
	}
	for i := range 2 * sightingsKept {
		s.since(fmt.Sprint(i), "", begin)
	}
	if len(s.first) > sightingsKept {
		t.Error(len(s.first), "are remembered")
	}
}
