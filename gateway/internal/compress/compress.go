// Package compress holds what the gateway's answers share about gzip.
package compress

import (
	"bytes"
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

// Packed returns a body compressed.
func Packed(body []byte) []byte {
	var packed bytes.Buffer
	z := pool.Get().(*gzip.Writer)
	z.Reset(&packed)
	_, _ = z.Write(body) // a buffer takes everything
	_ = z.Close()
	z.Reset(nil)
	pool.Put(z)
	return slices.Clip(packed.Bytes())
}

// Announce sets the headers of a compressed answer.
func Announce(h http.Header) {
	h.Set("Content-Encoding", "gzip")
	if !slices.Contains(h.Values("Vary"), "Accept-Encoding") {
		h.Add("Vary", "Accept-Encoding")
	}
}

// Begin sets the headers of a compressed answer and returns the writer of its body.
func Begin(w http.ResponseWriter) *Writer {
	Announce(w.Header())
	w.Header().Del("Content-Length")
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
