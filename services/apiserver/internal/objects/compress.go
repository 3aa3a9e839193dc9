package objects

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip" // a third of the cost of the standard library's

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

const (
	// compressFrom is the size of a list, in bytes, from which it is compressed, as Kubernetes does.
	compressFrom = 128 << 10
	// compressedPiece is about the size of what is sent at once of a compressed list.
	compressedPiece = 64 << 10
)

var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return w
}}

// listSender sends a list piece by piece, compressed where the caller takes that and the list is long. Compressed here, next to
// the cached bytes that it is made of, a list passes to the gateway at a hundredth of its size.
type listSender struct {
	send     func(*apiv1.ListResponse) error
	response apiv1.ListResponse
	// held is the start of a list that may be compressed but is short so far; nil where it is decided.
	held []byte
	hold bool
	gzip *gzip.Writer
	out  bytes.Buffer
}

// newListSender returns a sender for a caller that takes what its Accept-Encoding says. Close must be called at the end.
func newListSender(send func(*apiv1.ListResponse) error, contentType, acceptEncoding string) *listSender {
	s := &listSender{send: send, hold: strings.Contains(acceptEncoding, "gzip")}
	s.response.ContentType = contentType
	return s
}

// piece sends the next piece, of which it keeps nothing.
func (s *listSender) piece(b []byte) error {
	switch {
	case s.gzip != nil:
		return s.compress(b)
	case !s.hold:
		return s.pass(slices.Clone(b))
	}
	if len(s.held)+len(b) < compressFrom {
		s.held = append(s.held, b...)
		return nil
	}
	s.gzip, s.hold = compressors.Get().(*gzip.Writer), false
	s.gzip.Reset(&s.out)
	s.response.ContentEncoding = "gzip"
	held := s.held
	s.held = nil
	if err := s.compress(held); err != nil {
		return err
	}
	return s.compress(b)
}

func (s *listSender) compress(b []byte) error {
	if _, err := s.gzip.Write(b); err != nil {
		return err
	}
	if s.out.Len() < compressedPiece {
		return nil
	}
	return s.flush()
}

func (s *listSender) flush() error {
	sent := bytes.Clone(s.out.Bytes())
	s.out.Reset()
	return s.pass(sent)
}

// compressed sends the next piece of what is compressed already.
func (s *listSender) compressed(b []byte) error {
	if s.hold {
		s.response.ContentEncoding, s.hold = "gzip", false
	}
	return s.pass(b)
}

// pass sends bytes that nobody changes any more.
func (s *listSender) pass(b []byte) error {
	s.response.Object = b
	err := s.send(&s.response)
	s.response.ContentType, s.response.ContentEncoding = "", ""
	return err
}

// finish sends what is left.
func (s *listSender) finish() error {
	switch {
	case s.gzip != nil:
		if err := s.gzip.Close(); err != nil {
			return err
		}
		return s.flush()
	case len(s.held) > 0:
		return s.pass(s.held)
	}
	return nil
}

// free gives the compressor back; it must be called once.
func (s *listSender) free() {
	if s.gzip != nil {
		s.gzip.Reset(nil)
		compressors.Put(s.gzip)
		s.gzip = nil
	}
}
