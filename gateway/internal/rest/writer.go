package rest

import (
	"net/http"
	"strconv"

	"howdah.dev/gateway/internal/compress"
)

// guardFrom is the size of a write, in bytes, that may block: less fits
// into the buffers of the connection.
const guardFrom = 32 << 10

// writer stands between the mux and the client: it drops what the mux says
// about errors, compresses large bodies, and flushes watches only.
type writer struct {
	http.ResponseWriter
	exchange *exchange
	watch    bool
	gzip     bool // the client takes gzip

	code        int
	wroteHeader bool
	gone        bool   // the client does not read any more
	held        []byte // the start of a body whose size is not known yet
	compressor  *compress.Writer
	stall       *stall
	control     *http.ResponseController
}

// WriteHeader keeps the code until it is clear how the body travels.
func (w *writer) WriteHeader(code int) {
	if w.exchange.err == nil && w.code == 0 {
		w.code = code
	}
}

// Write passes a piece of the body on. It never fails: the mux would log
// every client that goes away. It ends the call instead.
func (w *writer) Write(p []byte) (int, error) {
	if w.exchange.err != nil || w.gone {
		return len(p), nil
	}
	piece := p
	if w.watch {
		w.begin()
	} else if !w.wroteHeader {
		if piece = w.hold(p); piece == nil {
			return len(p), nil
		}
	}
	w.check(w.send(piece))
	return len(p), nil
}

// check ends the call behind where the client has gone.
func (w *writer) check(err error) {
	if err != nil {
		w.gone = true
		w.exchange.cancel()
	}
}

// compressed says that the body comes compressed as named already; empty is not.
func (w *writer) compressed(encoding string) {
	if encoding == "" {
		return
	}
	w.gzip = false
	w.Header().Set("Content-Encoding", encoding)
	w.Header().Add("Vary", "Accept-Encoding")
	w.begin()
}

// hold decides, with the piece p, how the body travels, and returns what
// can be sent now. A body of known length is decided at once; one that comes
// in pieces is held back until it is long enough to compress or ends.
func (w *writer) hold(p []byte) []byte {
	length, err := strconv.Atoi(w.Header().Get("Content-Length"))
	if err != nil {
		w.held = append(w.held, p...)
		if length = len(w.held); length < compress.From {
			return nil
		}
		p, w.held = w.held, nil
	}
	if w.gzip && length >= compress.From {
		w.compressor = compress.Begin(w.ResponseWriter)
	}
	w.begin()
	return p
}

func (w *writer) begin() {
	if w.wroteHeader {
		return
	}
	w.wroteHeader = true
	if w.code == 0 {
		w.code = http.StatusOK
	}
	w.ResponseWriter.WriteHeader(w.code)
}

func (w *writer) send(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if w.watch || len(p) >= guardFrom {
		w.stall.begin()
		defer w.stall.end()
	}
	var err error
	if w.compressor != nil {
		_, err = w.compressor.Write(p)
	} else {
		_, err = w.ResponseWriter.Write(p)
	}
	return err
}

// FlushError sends a watch's frames on their way. Lists go out as the
// connection's buffers fill.
func (w *writer) FlushError() error {
	if !w.watch || w.exchange.err != nil || w.gone {
		return nil
	}
	w.begin()
	w.stall.begin()
	defer w.stall.end()
	w.check(http.NewResponseController(w.ResponseWriter).Flush())
	return nil
}

// push sends the frames of a watch on their way at once; none of them sends the headers.
func (w *writer) push(frames ...[]byte) {
	w.pushed(func(write func([]byte) error) error {
		for _, b := range frames {
			if err := write(b); err != nil {
				return err
			}
		}
		return nil
	})
}

// pushed sends on its way what make gives to write, which has been done with it when it returns without an error.
func (w *writer) pushed(make func(write func([]byte) error) error) {
	if w.exchange.err != nil || w.gone {
		return
	}
	w.begin()
	w.stall.begin()
	defer w.stall.end()
	if err := make(w.piece); err != nil {
		w.check(err)
		return
	}
	if w.control == nil {
		w.control = http.NewResponseController(w.ResponseWriter)
	}
	w.check(w.control.Flush())
}

// piece writes a piece of a watch, unless there is nothing in it.
func (w *writer) piece(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := w.ResponseWriter.Write(b)
	return err
}

// finish sends what is held back. It is called once, when the mux is done.
func (w *writer) finish() {
	if w.compressor != nil {
		_ = w.compressor.Close() // an error means that the client has gone
		w.compressor = nil
		return
	}
	if !w.wroteHeader {
		w.Header().Set("Content-Length", strconv.Itoa(len(w.held)))
		w.begin()
		_, _ = w.ResponseWriter.Write(w.held)
	}
}
