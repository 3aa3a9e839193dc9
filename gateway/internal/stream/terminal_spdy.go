package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"howdah.dev/gateway/internal/socket"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// spdyTerminalProtocols are spoken over SPDY, the best first.
var spdyTerminalProtocols = []string{"v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"}

// streamsTimeout bounds how long a client may take to open its streams.
const streamsTimeout = 30 * time.Second

// spdyTerminal is a terminal over the streams of a SPDY connection.
type spdyTerminal struct {
	streams map[string]httpstream.Stream // by stream type
	plain   bool                         // speaks a protocol before v4
}

var streamTypes = map[uint32]string{stdout: corev1.StreamTypeStdout, stderr: corev1.StreamTypeStderr}

func (t spdyTerminal) write(channel uint32, data []byte) error {
	stream, ok := t.streams[streamTypes[channel]]
	if !ok {
		return nil // the client did not ask for it
	}
	_, err := stream.Write(data)
	return err
}

func (t spdyTerminal) closeChannel(channel uint32) {
	if stream, ok := t.streams[streamTypes[channel]]; ok {
		_ = stream.Close()
	}
}

func (t spdyTerminal) finish(outcome []byte) error {
	if t.plain {
		outcome = plainOutcome(outcome)
	}
	if len(outcome) == 0 {
		return nil
	}
	_, err := t.streams[corev1.StreamTypeError].Write(outcome)
	return err
}

func (s *session) terminalOverSPDY() error {
	ctx, cancel := context.WithCancel(s.r.Context())
	defer cancel()
	c, _, err := s.connect(ctx)
	if err != nil {
		return err
	}
	protocol, err := httpstream.Handshake(s.r, s.w, spdyTerminalProtocols)
	if err != nil {
		return nil // answered by the handshake
	}
	arrived := make(chan httpstream.Stream, 8)
	conn := spdy.NewResponseUpgraderWithPings(socket.PingEvery).UpgradeResponse(s.w, s.r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		select {
		case arrived <- stream:
			return nil
		default:
			return errors.New("too many streams")
		}
	})
	if conn == nil {
		return nil // answered by the upgrader
	}
	defer conn.Close()
	ended := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer ended()
	go func() {
		<-conn.CloseChan()
		cancel()
	}()

	t := spdyTerminal{map[string]httpstream.Stream{}, protocol != "v4.channel.k8s.io"}
	if err := s.await(ctx, arrived, t.streams, protocol); err != nil {
		return nil // the connection is all there is to tell it by
	}
	c.start()
	if in, ok := t.streams[corev1.StreamTypeStdin]; ok {
		go func() { _ = c.copyIn(stdin, in) }() // ends with the connection
	}
	if in, ok := t.streams[corev1.StreamTypeResize]; ok {
		go copyResizes(c, in)
	}
	serveTerminal(c, t)
	for _, stream := range t.streams {
		_ = stream.Close()
	}
	return nil
}

// await collects the streams that the options call for.
func (s *session) await(ctx context.Context, arrived <-chan httpstream.Stream, into map[string]httpstream.Stream, protocol string) error {
	want := map[string]bool{corev1.StreamTypeError: true}
	tty := s.option("tty")
	want[corev1.StreamTypeStdin] = s.option("stdin")
	want[corev1.StreamTypeStdout] = s.option("stdout")
	want[corev1.StreamTypeStderr] = s.option("stderr") && !tty
	want[corev1.StreamTypeResize] = tty && (protocol == "v4.channel.k8s.io" || protocol == "v3.channel.k8s.io")
	missing := 0
	for _, wanted := range want {
		if wanted {
			missing++
		}
	}
	timeout := time.NewTimer(streamsTimeout)
	defer timeout.Stop()
	for missing > 0 {
		select {
		case stream := <-arrived:
			kind := stream.Headers().Get(corev1.StreamType)
			if !want[kind] || into[kind] != nil {
				return fmt.Errorf("unexpected stream type %q", kind)
			}
			into[kind] = stream
			missing--
		case <-timeout.C:
			return errors.New("timed out waiting for client to create streams")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// copyResizes sends every size on as one frame.
func copyResizes(c *call, from httpstream.Stream) {
	decoder := json.NewDecoder(from)
	for {
		var size json.RawMessage
		if decoder.Decode(&size) != nil {
			return
		}
		if c.send(&apiv1.ConnectFrame{Channel: resize, Data: size}) != nil {
			return
		}
	}
}
