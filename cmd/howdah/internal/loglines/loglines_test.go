package loglines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
)

func TestNewestAsksForAllPages(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, q.Encode())
		w.Header().Set("Content-Type", "application/json")
		switch q.Get("continue") {
		case "": // an empty page, and yet there is more
			fmt.Fprint(w, `{"lines": [], "continue": "a", "unknown": 1}`)
		case "a":
			fmt.Fprint(w, `{"lines": [{"text": "3"}, {"text": "2"}], "continue": "b"}`)
		case "b":
			fmt.Fprint(w, `{"lines": [{"text": "1"}], "continue": "c"}`)
		default:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403}`)
		}
	}))
	defer server.Close()
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(), GroupVersion: &schema.GroupVersion{Version: "v1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	lines, err := Newest(t.Context(), client, url.Values{"namespace": {"ns"}}, 3)
	if err != nil || len(lines) != 3 || lines[0].GetText() != "1" || lines[2].GetText() != "3" {
		t.Errorf("%v, %v", lines, err)
	}
	if got := strings.Join(asked, " "); got != "limit=3&namespace=ns continue=a&limit=3&namespace=ns continue=b&limit=1&namespace=ns" {
		t.Errorf("asked %s", got)
	}
	if _, err := Newest(t.Context(), client, url.Values{"continue": {"x"}}, 1); err == nil || err.Error() != "no" {
		t.Errorf("a refusal arrives as %v", err)
	}
}

func TestPrinter(t *testing.T) {
	t.Parallel()
	lines := []*logsv1.Line{{
		Time: timestamppb.New(time.Date(2026, 1, 2, 15, 4, 5, 123456000, time.UTC)), Namespace: "ns", Pod: "web", Container: "c", Node: "n1", RestartCount: 2, Stream: "stderr", Text: "hi [x] %s",
	}}
	for form, want := range map[string]string{
		"":     "2026-01-02T15:04:05.123456Z [pod/web/c] hi [x] %s\n",
		"wide": "2026-01-02T15:04:05.123456Z [ns/pod/web/c restarts=2 node=n1 stderr] hi [x] %s\n",
		"raw":  "hi [x] %s\n",
	} {
		print, err := Printer(form)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := print(&out, lines); err != nil || out.String() != want {
			t.Errorf("%q: %q, %v; want %q", form, out.String(), err, want)
		}
	}
	print, err := Printer("json")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	var document struct {
		Lines []struct {
			Text         string
			RestartCount int
		}
	}
	if err := print(&out, lines); err != nil || json.Unmarshal(out.Bytes(), &document) != nil || document.Lines[0].Text != "hi [x] %s" || strconv.Itoa(document.Lines[0].RestartCount) != "2" {
		t.Errorf("%s, %v", out.String(), err)
	}
	if _, err := Printer("xml"); err == nil {
		t.Error("xml was accepted")
	}
}
