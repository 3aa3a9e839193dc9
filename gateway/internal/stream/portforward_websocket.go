package stream

import (
	"context"
	"encoding/binary"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/gateway/internal/socket"
	"howdah.dev/kit/apistatus"
)

// forwardChannels are the protocols of clients that forward over channels of
// a WebSocket, without SPDY: ports stand in the query, channel 2i carries the
// data of the i-th and channel 2i+1 its errors. Each port has one connection.
var forwardChannels = []string{"v4.channel.k8s.io", "v4.base64.channel.k8s.io"}

// maxPorts bounds the ports of one such client: channels are single digits in base64.
const maxPorts = 4

func (s *session) forwardOverWebSocket() error {
	if slices.Contains(socket.Offered(s.r), tunnelProtocol) {
		return s.forwardOverTunnel()
	}
	if err := socket.CheckOffer(s.r, append([]string{tunnelProtocol}, forwardChannels...)); err != nil {
		return err
	}
	ports, err := s.ports()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.r.Context())
	defer cancel()
	if _, _, err := s.connect(ctx); err != nil { // it ends with ctx
		return err
	}
	conn, err := socket.Upgrade(s.w, s.r, forwardChannels)
	if err != nil {
		return nil // answered by the upgrader
	}
	ws := socket.New(conn)
	writers := make([]*io.PipeWriter, len(ports))
	var wg sync.WaitGroup
	for i, port := range ports {
		reader, writer := io.Pipe()
		writers[i] = writer
		data, errs := uint32(2*i), uint32(2*i+1)
		// The first message of each channel names its port.
		number := binary.LittleEndian.AppendUint16(nil, port)
		if ws.Write(data, number) != nil || ws.Write(errs, number) != nil {
			break
		}
		wg.Go(func() {
			defer reader.Close()
			if err := s.forward(ctx, uint32(port), channelConnection{reader, ws, data}); err != nil {
				_ = ws.Write(errs, []byte(apistatus.Of(err).Message))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel() // the client has gone
		for {
			channel, data, err := ws.Read()
			if err != nil {
				return
			}
			if i := int(channel) / 2; channel%2 == 0 && i < len(writers) {
				_, _ = writers[i].Write(data) // a closed pipe: that connection has ended
			}
		}
	}()
	wg.Wait()
	ws.Close()
	for _, writer := range writers {
		_ = writer.Close()
	}
	<-done
	return nil
}

// ports reads the query.
func (s *session) ports() ([]uint16, error) {
	var ports []uint16
	for _, value := range s.r.URL.Query()["ports"] {
		for text := range strings.SplitSeq(value, ",") {
			port, err := strconv.ParseUint(text, 10, 16)
			if err != nil || port == 0 {
				return nil, apierrors.NewBadRequest("unable to parse " + strconv.Quote(text) + " as a port")
			}
			ports = append(ports, uint16(port))
		}
	}
	switch {
	case len(ports) == 0:
		return nil, apierrors.NewBadRequest(`query parameter "ports" is required`)
	case len(ports) > maxPorts:
		return nil, apierrors.NewBadRequest("at most " + strconv.Itoa(maxPorts) + " ports can be forwarded over one WebSocket")
	}
	return ports, nil
}

// channelConnection is one channel of a WebSocket as a connection.
type channelConnection struct {
	io.Reader
	socket  *socket.Socket
	channel uint32
}

func (c channelConnection) Write(p []byte) (int, error) {
	if err := c.socket.Write(c.channel, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close does nothing: the protocol cannot say that a channel has ended.
func (channelConnection) Close() error { return nil }
