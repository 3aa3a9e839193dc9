// Package console serves the web console: static files, and the one setting that they need. It knows no object and no user: what the
// pages show they ask of the Kubernetes API of the same origin, with the credentials of whoever looks at them.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// Root is the path below which everything is.
const Root = "/console/"

// traceID stands in Config.TraceURL for the trace.
const traceID = "{traceID}"

//go:embed static
var embedded embed.FS

// Config is what the pages are told.
type Config struct {
	// TraceURL leads to a trace, with {traceID} for its hexadecimal ID, as http://127.0.0.1:16686/trace/{traceID}; empty shows IDs alone.
	TraceURL string
}

// Handler serves the console.
type Handler struct{ files map[string]file }

// file is one that is served, by its path below Root.
type file struct {
	contentType, etag string
	content           []byte
}

// New returns a handler; it fails where the configuration is no good.
func New(config Config) (*Handler, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	settings, err := json.Marshal(map[string]string{"traceURL": config.TraceURL})
	if err != nil {
		return nil, err
	}
	h := &Handler{files: map[string]file{"config.json": newFile("config.json", settings)}}
	static, err := fs.Sub(embedded, "static")
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(static, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(static, name)
		if err != nil {
			return err
		}
		h.files[name] = newFile(name, content)
		return nil
	})
	h.files[""] = h.files["index.html"]
	return h, err
}

func (c Config) validate() error {
	if c.TraceURL == "" {
		return nil
	}
	u, err := url.Parse(strings.ReplaceAll(c.TraceURL, traceID, "0"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.Contains(c.TraceURL, traceID) {
		return fmt.Errorf("console: the URL of traces is %q, not as http://127.0.0.1:16686/trace/%s", c.TraceURL, traceID)
	}
	return nil
}

func newFile(name string, content []byte) file {
	sum := sha256.Sum256(content)
	return file{contentTypes[path.Ext(name)], `"` + hex.EncodeToString(sum[:16]) + `"`, content}
}

// contentTypes are those of the files that there are; the machine's own table is not asked.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json",
	".svg":  "image/svg+xml",
}

// Is reports whether a path is the console's.
func Is(path string) bool { return path+"/" == Root || strings.HasPrefix(path, Root) }

// policy lets pages load what is served here and nothing else, be framed by nobody, and make no markup of texts.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP answers a request for a path of the console. It needs no credentials: the files are the same for all.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	for name, value := range map[string]string{
		"Content-Security-Policy":      policy,
		"X-Frame-Options":              "DENY",
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-cache", // kept, and asked for with the ETag each time: a gateway may be newer
	} {
		header.Set(name, value)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "405 method not allowed", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path+"/" == Root {
		http.Redirect(w, r, Root, http.StatusPermanentRedirect)
		return
	}
	f, ok := h.files[strings.TrimPrefix(r.URL.Path, Root)]
	if !ok {
		http.NotFound(w, r)
		return
	}
	header.Set("Content-Type", f.contentType)
	header.Set("Etag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}
