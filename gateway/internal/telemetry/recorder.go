package telemetry

import (
	"bufio"
	"net"
	"net/http"
)

// Recorder remembers the code of an answer.
type Recorder struct {
	http.ResponseWriter
	code int
}

// Record wraps a writer.
func Record(w http.ResponseWriter) *Recorder { return &Recorder{ResponseWriter: w} }

// WriteHeader remembers the first final code.
func (r *Recorder) WriteHeader(code int) {
	if r.code == 0 && (code >= 200 || code == http.StatusSwitchingProtocols) {
		r.code = code
	}
	r.ResponseWriter.WriteHeader(code)
}

// Code returns the code that was answered.
func (r *Recorder) Code() int {
	if r.code == 0 {
		return http.StatusOK
	}
	return r.code
}

// Begun reports whether an answer has begun.
func (r *Recorder) Begun() bool { return r.code != 0 }

func (r *Recorder) Write(p []byte) (int, error) {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap serves http.ResponseController.
func (r *Recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush serves libraries that ask for http.Flusher.
func (r *Recorder) Flush() { _ = http.NewResponseController(r.ResponseWriter).Flush() }

// Hijack serves libraries that ask for http.Hijacker. What follows is an
// upgrade, so the code is 101.
func (r *Recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil && r.code == 0 {
		r.code = http.StatusSwitchingProtocols
	}
	return conn, buffer, err
}
