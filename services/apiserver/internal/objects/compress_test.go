package objects

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

func TestListSender(t *testing.T) {
	t.Parallel()
	piece := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	for name, c := range map[string]struct {
		accept   string
		pieces   int
		encoding string
	}{
		"nothing":              {"gzip", 0, ""},
		"short":                {"gzip", 7, ""},
		"long":                 {"gzip", 8, "gzip"},
		"very long":            {"gzip", 500, "gzip"},
		"long, for who cannot": {"", 500, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent []*apiv1.ListResponse
			s := newListSender(func(r *apiv1.ListResponse) error {
				sent = append(sent, proto.CloneOf(r))
				return nil
			}, "text/plain", c.accept)
			defer s.free()
			var want []byte
			own := make([]byte, len(piece)) // the sender must not keep it
			for range c.pieces {
				copy(own, piece)
				if err := s.piece(own); err != nil {
					t.Fatal(err)
				}
				clear(own)
				want = append(want, piece...)
			}
			if err := s.finish(); err != nil {
				t.Fatal(err)
			}
			var body []byte
			for n, r := range sent {
				if first := n == 0; first != (r.GetContentType() == "text/plain") || (first && c.encoding != "") != (r.GetContentEncoding() != "") {
					t.Errorf("message %d says %q, %q", n, r.GetContentType(), r.GetContentEncoding())
				}
				body = append(body, r.GetObject()...)
			}
			if c.encoding == "gzip" {
				reader, err := gzip.NewReader(bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if body, err = io.ReadAll(reader); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(body, want) {
				t.Errorf("%d bytes arrive of %d", len(body), len(want))
			}
		})
	}
}
