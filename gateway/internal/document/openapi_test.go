package document

import (
	"fmt"
	"testing"
	"time"
)

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
