package stream

import (
	"context"
	"strings"

	"howdah.dev/gateway/internal/socket"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// terminalProtocols are spoken over WebSocket, the best first.
var terminalProtocols = []string{
	"v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io",
}

// closeSignal is the channel on which clients of v5 close another one.
const closeSignal = 255

// socketTerminal is a terminal over a WebSocket.
type socketTerminal struct {
	socket *socket.Socket
	plain  bool // speaks a protocol before v4
}

func (t socketTerminal) write(channel uint32, data []byte) error {
	return t.socket.Write(channel, data)
}

func (socketTerminal) closeChannel(uint32) {} // the protocol knows no such message from the server

func (t socketTerminal) finish(outcome []byte) error {
	if t.plain {
		outcome = plainOutcome(outcome)
	}
	if len(outcome) == 0 {
		return nil
	}
	return t.write(status, outcome)
}

func (s *session) terminalOverWebSocket() error {
	if err := socket.CheckOffer(s.r, terminalProtocols); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.r.Context())
	defer cancel()
	c, _, err := s.connect(ctx)
	if err != nil {
		return err
	}
	conn, err := socket.Upgrade(s.w, s.r, terminalProtocols)
	if err != nil {
		return nil // answered by the upgrader
	}
	protocol := conn.Subprotocol()
	t := socketTerminal{socket.New(conn), !strings.HasPrefix(protocol, "v4.") && !strings.HasPrefix(protocol, "v5.")}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel() // the client has gone
		readTerminal(c, t.socket, protocol == "v5.channel.k8s.io")
	}()
	// An empty message on the first channel that the client reads tells it that the stream stands.
	first := uint32(status)
	if s.option("stdout") {
		first = stdout
	} else if s.option("stderr") {
		first = stderr
	}
	if t.write(first, nil) == nil {
		c.start()
		serveTerminal(c, t)
	}
	t.socket.Close()
	cancel()
	<-done
	return nil
}

// readTerminal sends on what the client types and how large its window is,
// until the connection ends.
func readTerminal(c *call, from *socket.Socket, closes bool) {
	for {
		channel, data, err := from.Read()
		if err != nil {
			return
		}
		frame := &apiv1.ConnectFrame{Channel: uint32(channel), Data: data}
		switch {
		case channel == stdin || channel == resize:
		case closes && channel == closeSignal && len(data) == 1 && data[0] == stdin:
			frame = &apiv1.ConnectFrame{Channel: stdin, Close: true}
		default:
			continue
		}
		if c.send(frame) != nil {
			return
		}
	}
}
