package console

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func served(t *testing.T, method, target string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	h, err := New(Config{TraceURL: "http://127.0.0.1:16686/trace/{traceID}"})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, "/console/", nil)
	r.URL.Path = target
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestServe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, path string
		code         int
		contentType  string
		contains     string
	}{
		{"GET", "/console/", 200, "text/html; charset=utf-8", "<script type=\"module\" src=\"main.js\">"},
		{"HEAD", "/console/", 200, "text/html; charset=utf-8", ""},
		{"GET", "/console/index.html", 200, "text/html; charset=utf-8", "<script"},
		{"GET", "/console/main.js", 200, "text/javascript; charset=utf-8", "import"},
		{"GET", "/console/style.css", 200, "text/css; charset=utf-8", ":root"},
		{"GET", "/console/icon.svg", 200, "image/svg+xml", "<svg"},
		{"GET", "/console/config.json", 200, "application/json", `{"traceURL":"http://127.0.0.1:16686/trace/{traceID}"}`},
		{"GET", "/console", 308, "text/html; charset=utf-8", "/console/"},
		{"GET", "/console/view", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/console/view/", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/console/none.js", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/console/../console.go", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/console/view/../main.js", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/console//etc/passwd", 404, "text/plain; charset=utf-8", ""},
		{"GET", "/console/static/main.js", 404, "text/plain; charset=utf-8", ""},
		{"POST", "/console/", 405, "text/plain; charset=utf-8", "method not allowed"},
		{"DELETE", "/console/main.js", 405, "text/plain; charset=utf-8", "method not allowed"},
		{"OPTIONS", "/console/main.js", 405, "text/plain; charset=utf-8", "method not allowed"},
	} {
		w := served(t, tt.method, tt.path)
		if w.Code != tt.code || w.Header().Get("Content-Type") != tt.contentType || !strings.Contains(w.Body.String(), tt.contains) {
			t.Errorf("%s %s: %d %s %.80q", tt.method, tt.path, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Content-Security-Policy": policy,
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s %s: %s is %q", tt.method, tt.path, name, got)
			}
		}
	}
}

func TestETag(t *testing.T) {
	t.Parallel()
	first := served(t, "GET", "/console/main.js")
	etag := first.Header().Get("Etag")
	if etag == "" || first.Header().Get("Cache-Control") != "no-cache" {
		t.Fatalf("%v", first.Header())
	}
	if again := served(t, "GET", "/console/main.js", "If-None-Match", etag); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("with the ETag: %d, %d bytes", again.Code, again.Body.Len())
	}
	if other := served(t, "GET", "/console/style.css", "If-None-Match", etag); other.Code != http.StatusOK {
		t.Errorf("another file with the ETag: %d", other.Code)
	}
}

func TestIs(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/console": true, "/console/": true, "/console/x": true, "/consoles": false, "/": false, "/api/console/": false} {
		if Is(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

func TestTraceURL(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"": true, "https://traces.example.com/{traceID}": true, "http://h/explore?left={traceID}": true,
		"http://h/": false, "javascript:alert('{traceID}')": false, "/trace/{traceID}": false, "http://{traceID}:x": false,
	} {
		if _, err := New(Config{TraceURL: text}); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// outside are references to anything that is not served here.
var outside = regexp.MustCompile(`(?i)(src|href)\s*=\s*["']?(https?:)?//|@import|from\s+["'](https?:)?//`)

// unsafe is what would make markup or code of texts.
var unsafe = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|localStorage|document\.cookie`)

var imported = regexp.MustCompile(`(?m)from '([^']+)'`)

// TestFiles holds the files to what the policy and the README promise: nothing from elsewhere, no markup from texts, every import there.
func TestFiles(t *testing.T) {
	t.Parallel()
	h, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range h.files {
		text := string(f.content)
		if f.contentType == "" {
			t.Errorf("%s is of no known type", name)
		}
		if found := outside.FindString(text); found != "" {
			t.Errorf("%s refers to what is not served here: %s", name, found)
		}
		if path.Ext(name) == ".css" && strings.Contains(text, "url(") {
			t.Errorf("%s loads something", name)
		}
		if found := unsafe.FindString(text); found != "" {
			t.Errorf("%s uses %s", name, found)
		}
		if path.Ext(name) == ".html" && (strings.Contains(text, "<style") || strings.Contains(text, " style=") || strings.Contains(text, "<script>") || strings.Contains(text, " on")) {
			t.Errorf("%s has inline style or script", name)
		}
		for _, match := range imported.FindAllStringSubmatch(text, -1) {
			if _, ok := h.files[path.Join(path.Dir(name), match[1])]; !ok && path.Ext(name) == ".js" {
				t.Errorf("%s imports %s, which is not there", name, match[1])
			}
		}
	}
	if _, err := fs.Stat(embedded, "static/index.html"); err != nil {
		t.Error(err)
	}
}
