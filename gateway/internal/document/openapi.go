package document

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"time"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/compress"
)

const (
	openAPI = "/openapi/v"
	// whole and index are the documents of version 2 and, in chapters, of version 3.
	whole, index, chapters = "/openapi/v2", "/openapi/v3", "/openapi/v3/"
)

// vary says what else than its path a document depends on, where Kubernetes says it.
func vary(header http.Header, path string) {
	switch path {
	case index:
		return
	case whole:
		header.Add("Vary", "Accept-Encoding")
	}
	header.Add("Vary", "Accept")
}

// known is the version of a document that the API server need not send, since the client has it. Where other conditions count before, the
// body is needed to judge.
func known(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, openAPI) && (r.Method != http.MethodGet && r.Method != http.MethodHead ||
		r.Header.Get("If-Match") != "" || r.Header.Get("If-Unmodified-Since") != "") {
		return ""
	}
	return r.Header.Get("If-None-Match")
}

// serveOpenAPI answers with a document, or with the part of it and under the conditions that the request names (RFC 9110, sections 13 and 14).
// The index has an Etag, which Kubernetes' has not: by its Last-Modified alone, which tells seconds, a client that asked between two changes in the same
// second would keep what it has for good, as kubectl explain does of a definition that follows the deletion of another.
func (h *Handler) serveOpenAPI(w http.ResponseWriter, r *http.Request, resp *apiv1.DocumentResponse) {
	header, etag := w.Header(), resp.GetEtag()
	header.Set("Etag", etag)
	if hash := r.URL.Query().Get("hash"); hash != "" && strings.HasPrefix(r.URL.Path, chapters) {
		if current := strings.Trim(etag, `"`); hash != current { // what it names is gone: the document has another name now
			header.Set("Location", r.URL.Path+"?hash="+current)
			header.Set("Content-Type", resp.GetContentType())
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		header.Set("Cache-Control", "public, immutable")
		header.Set("Expires", time.Now().UTC().AddDate(1, 0, 0).Format(time.RFC1123))
	}
	if r.URL.Path != index { // what nobody names, ServeContent finds out
		header.Set("Content-Type", resp.GetContentType())
	}
	body := resp.GetObject()
	if len(body) >= compress.From && r.Method != http.MethodHead && r.Header.Get("Range") == "" && compress.Accepted(r.Header) {
		body, w = h.packed.of(body, nameOf(resp)), packedWriter{w}
	}
	http.ServeContent(w, r, "", h.seen.since(r.URL.Path, etag, time.Now()), bytes.NewReader(body))
}

// packedWriter says of a 200 that its body is compressed.
type packedWriter struct{ http.ResponseWriter }

func (w packedWriter) WriteHeader(code int) {
	if code == http.StatusOK {
		compress.Announce(w.Header())
	}
	w.ResponseWriter.WriteHeader(code)
}

// sightingsKept bounds the documents whose age is remembered: far more than there are.
const sightingsKept = 10_000

// sightings are since when documents have been as they are, as far as this gateway has seen.
type sightings struct {
	mu    sync.Mutex
	first map[string]sighting // by path
}

type sighting struct {
	etag string
	at   time.Time
}

// since returns since when the document at the path has had the etag.
func (s *sightings) since(path, etag string, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.first[path]; ok && known.etag == etag {
		return known.at
	}
	if s.first == nil || len(s.first) >= sightingsKept {
		s.first = map[string]sighting{}
	}
	s.first[path] = sighting{etag, now}
	return now
}
