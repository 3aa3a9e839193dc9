// Package socket is the WebSocket that clients speak: channels of bytes in
// one of Kubernetes' subprotocols, or whole messages, kept alive by pings.
package socket

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// PingEvery and silence keep idle connections open, and end those whose
	// client is gone.
	PingEvery = 20 * time.Second
	silence   = 65 * time.Second
	// SendTimeout bounds how long a client may leave a message unread.
	SendTimeout = time.Minute
	bufferSize  = 32 << 10 // bytes
	// maxMessage bounds one message of a client, in bytes.
	maxMessage = 8 << 20
)

// Socket is a WebSocket that carries channels: the first byte of a message
// is the channel. In the base64 protocols the byte is a digit and the rest base64.
type Socket struct {
	conn   *websocket.Conn
	base64 bool
	stop   func() // ends the pings

	mu sync.Mutex // one writer at a time
}

// Offered returns the subprotocols that a client offers, without those that carry a token.
func Offered(r *http.Request) []string {
	return slices.DeleteFunc(websocket.Subprotocols(r), func(p string) bool {
		return strings.HasPrefix(p, "base64url.bearer.authorization.k8s.io.")
	})
}

// CheckOffer fails where none of what the client offers is spoken. Offering
// nothing is right: the client speaks the oldest protocol.
func CheckOffer(r *http.Request, spoken []string) error {
	offer := Offered(r)
	if len(offer) == 0 || slices.ContainsFunc(offer, func(p string) bool { return slices.Contains(spoken, p) }) {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("unable to upgrade: unable to negotiate protocol: client supports %v, server accepts %v", offer, spoken))
}

// Upgrade turns the request's connection into a WebSocket. On an error, the
// request has been answered. As in Kubernetes the Origin is any: clients that are
// no browsers send one that says nothing, and no cookie authenticates here.
func Upgrade(w http.ResponseWriter, r *http.Request, spoken []string) (*websocket.Conn, error) {
	upgrader := websocket.Upgrader{
		HandshakeTimeout: 10 * time.Second, ReadBufferSize: bufferSize, WriteBufferSize: bufferSize, Subprotocols: spoken,
		CheckOrigin: func(*http.Request) bool { return true },
	}
	return upgrader.Upgrade(w, r, http.Header{"Cache-Control": w.Header()["Cache-Control"]})
}

// Wanted reports whether a request asks for a WebSocket.
func Wanted(r *http.Request) bool { return websocket.IsWebSocketUpgrade(r) }

// New takes an upgraded connection over; Close must be called.
func New(conn *websocket.Conn) *Socket {
	s := &Socket{conn: conn, base64: strings.Contains(conn.Subprotocol(), "base64.")}
	conn.SetReadLimit(maxMessage)
	alive := func() { _ = conn.SetReadDeadline(time.Now().Add(silence)) }
	alive()
	conn.SetPongHandler(func(string) error { alive(); return nil })
	answerPing := conn.PingHandler()
	conn.SetPingHandler(func(data string) error { alive(); return answerPing(data) })

	ended := make(chan struct{})
	s.stop = sync.OnceFunc(func() { close(ended) })
	go func() {
		ticker := time.NewTicker(PingEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				if conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(PingEvery)) != nil {
					return
				}
			case <-ended:
				return
			}
		}
	}()
	return s
}

// Read returns the next message of a client.
func (s *Socket) Read() (channel byte, data []byte, err error) {
	for {
		// The last message may have taken long to be sent on.
		if err := s.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return 0, nil, err
		}
		_, message, err := s.conn.ReadMessage()
		if err != nil {
			return 0, nil, err
		}
		if len(message) == 0 {
			continue
		}
		if !s.base64 {
			return message[0], message[1:], nil
		}
		data, err := base64.StdEncoding.DecodeString(string(message[1:]))
		if err != nil || message[0] < '0' || message[0] > '9' {
			return 0, nil, errors.New("malformed base64 message")
		}
		return message[0] - '0', data, nil
	}
}

// Write sends a message on a channel.
func (s *Socket) Write(channel uint32, data []byte) error {
	if s.base64 {
		return s.writeMessage(websocket.TextMessage, append([]byte{'0' + byte(channel)}, encodeBase64(data)...))
	}
	return s.writeMessage(websocket.BinaryMessage, []byte{byte(channel)}, data)
}

// WriteWhole sends a message that belongs to no channel.
func (s *Socket) WriteWhole(data []byte) error {
	if s.base64 {
		return s.writeMessage(websocket.TextMessage, encodeBase64(data))
	}
	return s.writeMessage(websocket.BinaryMessage, data)
}

// WriteText sends a message of text.
func (s *Socket) WriteText(text []byte) error { return s.writeMessage(websocket.TextMessage, text) }

// writeMessage sends one message that consists of the parts.
func (s *Socket) writeMessage(kind int, parts ...[]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.conn.SetWriteDeadline(time.Now().Add(SendTimeout)); err != nil {
		return err
	}
	w, err := s.conn.NextWriter(kind)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return w.Close()
}

func encodeBase64(data []byte) []byte { return base64.StdEncoding.AppendEncode(nil, data) }

// Drain reads, and forgets, what a client sends that has nothing to say; it
// returns when the connection ends.
func (s *Socket) Drain() {
	for {
		if _, _, err := s.conn.NextReader(); err != nil {
			return
		}
	}
}

// Close says good-bye and closes the connection.
func (s *Socket) Close() {
	s.stop()
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = s.conn.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
	_ = s.conn.Close()
}
