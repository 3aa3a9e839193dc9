// Package compress holds what the gateway's answers share about gzip.
package compress

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip" // a third of the cost of the standard library's
)

// From is the size of a body, in bytes, from which it is compressed.
const From = 128 << 10

var pool = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return w
}}

// Accepted reports whether a request's Accept-Encoding names gzip without refusing it.
func Accepted(h http.Header) bool {
	for _, line := range h["Accept-Encoding"] {
		for part := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") {
				return strings.ReplaceAll(params, " ", "") != "q=0"
			}
		}
	}
	return false
}

// Writer compresses what is written to it. Close must be called once.
type Writer struct{ gzip *gzip.Writer }

// Begin sets the headers of a compressed answer and returns the writer of its body.
func Begin(w http.ResponseWriter) *Writer {
	h := w.Header()
	h.Set("Content-Encoding", "gzip")
	if !slices.Contains(h.Values("Vary"), "Accept-Encoding") {
		h.Add("Vary", "Accept-Encoding")
	}
	h.Del("Content-Length")
	z := pool.Get().(*gzip.Writer)
	z.Reset(w)
	return &Writer{z}
}

var _ io.WriteCloser = (*Writer)(nil)

func (w *Writer) Write(p []byte) (int, error) { return w.gzip.Write(p) }

// Close sends the rest.
func (w *Writer) Close() error {
	err := w.gzip.Close()
	w.gzip.Reset(nil) // keeps no answer alive
	pool.Put(w.gzip)
	w.gzip = nil
	return err
}
