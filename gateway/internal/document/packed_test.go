package document

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// What is compressed once is told from what has another name, and what has none is not kept.
func TestPacked(t *testing.T) {
	t.Parallel()
	p := newPacked()
	expanded := func(b []byte) string {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for range 2 {
		for _, name := range []string{"one", "two", ""} {
			if got := expanded(p.of([]byte("body of "+name), name)); got != "body of "+name {
				t.Errorf("%q: %q", name, got)
			}
		}
	}
	if n := p.kept.Len(); n != 2 {
		t.Errorf("%d are kept", n)
	}
}

// An answer that is compressed for the second time has the same headers and body as the first; a changed one has its own.
func TestCompressedDocuments(t *testing.T) {
	t.Parallel()
	h := New(nil)
	for _, c := range []struct{ path, etag, fill string }{
		{"/openapi/v2", `"a"`, "a"}, {"/openapi/v2", `"a"`, "a"}, {"/openapi/v2", `"b"`, "b"}, {"/apis", `"c"`, "c"}, {"/apis", `"d"`, "d"}, {"/apis", "", "e"}, {"/apis", "", "f"},
	} {
		body := []byte(strings.Repeat(c.fill, 200<<10))
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		resp := &apiv1.DocumentResponse{Object: body, ContentType: "application/json", Etag: c.etag}
		if strings.HasPrefix(c.path, openAPI) {
			h.serveOpenAPI(w, r, resp)
		} else {
			h.write(w, r, resp.GetContentType(), nameOf(resp), body)
		}
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(z)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%+v: %d bytes, %v", c, len(got), err)
		}
		if header := w.Header(); header.Get("Content-Encoding") != "gzip" || header.Get("Vary") != "Accept-Encoding" || w.Code != http.StatusOK {
			t.Errorf("%+v: %d, %v", c, w.Code, header)
		}
	}
}
