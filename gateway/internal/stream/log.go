package stream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/socket"
)

// logProtocols are spoken over WebSocket; no protocol at all means the first.
var logProtocols = []string{"binary.k8s.io", "base64.binary.k8s.io"}

// wanted is the header that says how the client wants its answer.
func (s *session) wanted() *apiv1.Header {
	return &apiv1.Header{Name: "Accept", Value: strings.Join(s.r.Header.Values("Accept"), ", ")}
}

// log streams a log; whatever arrives is flushed, since someone may be following.
func (s *session) log() error {
	if upgrades(s.r, "websocket") {
		return s.logOverWebSocket()
	}
	c, accepted, err := s.connect(s.r.Context(), s.wanted())
	if err != nil {
		return err
	}
	c.finishSending()
	header := s.w.Header()
	header.Set("Content-Type", "text/plain")
	for _, h := range accepted.GetHeaders() {
		header.Set(h.GetName(), h.GetValue())
	}
	if accepted.GetCode() == http.StatusNoContent {
		header.Del("Content-Type")
		s.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	s.w.WriteHeader(http.StatusOK)
	controller := http.NewResponseController(s.w)
	_ = controller.Flush() // the headers tell the client that the log stands
	for {
		frame, err := c.receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			panic(http.ErrAbortHandler) // a clean end would pass for the end of the log
		}
		if frame.GetChannel() != stdout || len(frame.GetData()) == 0 {
			continue
		}
		if _, err := s.w.Write(frame.GetData()); err != nil {
			return nil // the client has gone
		}
		if controller.Flush() != nil {
			return nil
		}
	}
}

// logOverWebSocket sends each piece of a log as one message.
func (s *session) logOverWebSocket() error {
	if err := socket.CheckOffer(s.r, logProtocols); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.r.Context())
	defer cancel()
	c, _, err := s.connect(ctx, s.wanted())
	if err != nil {
		return err
	}
	c.finishSending()
	conn, err := socket.Upgrade(s.w, s.r, logProtocols)
	if err != nil {
		return nil // answered by the upgrader
	}
	ws := socket.New(conn)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel() // the client has gone
		ws.Drain()
	}()
	for {
		frame, err := c.receive()
		if err != nil {
			break
		}
		if frame.GetChannel() != stdout || len(frame.GetData()) == 0 {
			continue
		}
		if ws.WriteWhole(frame.GetData()) != nil {
			break
		}
	}
	ws.Close()
	<-done
	return nil
}
