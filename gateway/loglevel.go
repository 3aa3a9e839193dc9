package gateway

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
)

// maxVerbosity is far longer than any number that /debug/flags/v takes.
const maxVerbosity = 64

// levelOf is the level of the log that stands for a verbosity of Kubernetes' components: 0 is what an operator always wants to see, 2 what
// they run with, and 4 what helps to find a fault.
func levelOf(verbosity uint32) slog.Level {
	switch {
	case verbosity == 0:
		return slog.LevelWarn
	case verbosity < 4:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// serveLogLevel answers /debug/flags/, and sets the level of this process's log at /debug/flags/v.
func (rt *router) serveLogLevel(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/debug/flags/v" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, "<html>\n<head><title>/debug/flags/</title></head>\n<body>\nPUT a number to /debug/flags/v: 0 logs warnings and errors, 1 to 3 what happens, 4 and more everything. It is %s now.\n</body>\n</html>\n",
			rt.config.LogLevel.Level())
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodPut {
		w.WriteHeader(http.StatusNotAcceptable)
		_, _ = io.WriteString(w, "unsupported http method\n")
		return
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxVerbosity))
	var verbosity uint64
	if err == nil {
		verbosity, err = strconv.ParseUint(string(text), 10, 32)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintln(w, err)
		return
	}
	before := rt.config.LogLevel.Level()
	rt.config.LogLevel.Set(levelOf(uint32(verbosity)))
	slog.WarnContext(r.Context(), "the log's level was changed", "from", before.String(), "to", rt.config.LogLevel.Level().String())
	_, _ = fmt.Fprintf(w, "successfully set klog.logging.verbosity to %d\n", verbosity)
}
