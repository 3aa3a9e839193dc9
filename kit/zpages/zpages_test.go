package zpages_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/zpages"
)

// serve asks for a page with an Accept header.
func serve(t *testing.T, page zpages.Page, accept string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	page.Serve(w, r, func(s metav1.Status) { http.Error(w, s.Message, int(s.Code)) })
	return w
}

func TestText(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, c := range map[string]struct {
		page zpages.Page
		want string
	}{
		"flags, in order": {zpages.Flags("role", []string{"b=2", "a=1=x"}), "\nrole flagz\nWarning: "},
		"none":            {zpages.Flags("role", nil), "\nrole flagz\n"},
		"status": {
			zpages.Status(zpages.Running{Component: "role", Began: began, Binary: "v1.2.3", Emulation: "1.2", Paths: []string{"/a", "/b"}}, began.Add(26*time.Hour+3*time.Second)),
			"\n\nStarted= Wed Mar  4 05:06:07 UTC 2026\nUp= 26 hr 00 min 03 sec\nGo version= " + runtime.Version() + "\nBinary version= v1.2.3\nEmulation version= 1.2\nPaths= /a /b\n",
		},
	} {
		for _, accept := range []string{"", "*/*", "application/vnd.other, text/plain;q=0.5"} {
			if w := serve(t, c.page, accept); w.Code != 200 || !strings.Contains(w.Body.String(), c.want) || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s, accepting %q: %d %q", name, accept, w.Code, w.Body)
			}
		}
	}
	if text := serve(t, zpages.Flags("role", []string{"b=2", "a=1=x"}), "").Body.String(); !strings.HasSuffix(text, "\na: 1=x\nb: 2\n") {
		t.Errorf("flags are told as %q", text)
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	page := zpages.Flags("role", []string{"a=1"})
	const named = ";v=v1beta1;g=config.k8s.io;as=Flagz"
	w := serve(t, page, "application/json"+named)
	var object struct {
		Kind, APIVersion string
		Metadata         metav1.ObjectMeta
		Flags            map[string]string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &object); err != nil {
		t.Fatal(err)
	}
	if object.Kind != "Flagz" || object.APIVersion != "config.k8s.io/v1beta1" || object.Metadata.Name != "role" || object.Flags["a"] != "1" {
		t.Errorf("answered %s", w.Body)
	}
	if w := serve(t, page, "application/yaml"+named); !strings.Contains(w.Body.String(), "\nkind: Flagz\n") {
		t.Errorf("YAML is %q", w.Body)
	}
	if warned := w.Header().Values("Warning"); warned != nil {
		t.Errorf("warns: %q", warned)
	}
	w = serve(t, page, "application/json;v=v1alpha1;g=config.k8s.io;as=Flagz,application/json"+named)
	if warned := w.Header().Get("Warning"); !strings.Contains(w.Body.String(), `"apiVersion":"config.k8s.io/v1alpha1"`) ||
		warned != `299 - "This version of the flagz endpoint is deprecated. Please use a newer version."` {
		t.Errorf("the older version: %q %s", warned, w.Body)
	}
	for _, accept := range []string{"application/json", "application/json;v=v1;g=config.k8s.io;as=Flagz", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz", "image/png"} {
		if w := serve(t, page, accept); w.Code != http.StatusNotAcceptable {
			t.Errorf("accepting %q: %d", accept, w.Code)
		}
	}
}
