package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"howdah.dev/gateway/internal/document"
)

func TestOrigin(t *testing.T) {
	t.Parallel()
	request := func(id, agent, forwarded string) (header string, lines []string) {
		r := httptest.NewRequest("GET", "/api/v1/pods?limit=5", nil)
		r.RemoteAddr = "10.1.2.3:4567"
		for name, value := range map[string]string{"Audit-ID": id, "User-Agent": agent, "X-Forwarded-For": forwarded} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		md := withOrigin(metadata.MD{}, w, r)
		return w.Header().Get("Audit-ID"), strings.Split(md.Get(document.OriginKey)[0], "\n")
	}
	header, lines := request("mine", "kubectl/v1", "192.0.2.1, 192.0.2.2")
	if header != "mine" || strings.Join(lines, "|") != "mine|192.0.2.1,192.0.2.2,10.1.2.3|kubectl/v1|/api/v1/pods?limit=5" {
		t.Error(header, lines)
	}
	for _, id := range []string{"", strings.Repeat("x", 65), "a\x01b"} {
		header, lines = request(id, "a\nb", "")
		if len(header) != 36 || lines[0] != header || len(lines) != 4 || lines[1] != "10.1.2.3" || lines[2] != "a b" {
			t.Errorf("%q: %s %q", id, header, lines)
		}
	}
}
