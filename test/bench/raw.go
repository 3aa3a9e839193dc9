package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"k8s.io/client-go/rest"
)

// rawWatchers are watches that only count the events that come, by their lengths, and decode none: what they leave of a figure is the
// server's. All streams of a connection are read by one goroutine.
type rawWatchers struct {
	// sent are the times at which the writes began, in their order; 0 is not yet.
	sent []atomic.Int64
	// Each stream is told of so many events, of every step-th write.
	events, step int

	conns   []*rawConn
	reading sync.WaitGroup
	arrived chan struct{} // one for each stream that has had all
	failed  chan error
	media   string
}

// rawConn is one connection.
type rawConn struct {
	all     *rawWatchers
	conn    net.Conn
	framer  *http2.Framer
	opened  chan struct{} // one for each stream that has begun
	streams map[uint32]*rawStream
	took    []time.Duration
	unacked uint32 // bytes that were read since the connection's window was opened last
}

// rawStream is where one watch stands in its stream of events: in protobuf each has its length before it, in JSON each is a line.
type rawStream struct {
	head   []byte
	left   int
	events int
	// first is the number of the first write that the stream is told of.
	first int
}

// window is the largest that HTTP/2 knows.
const window = 1<<31 - 1

const (
	protobufMedia = "application/vnd.kubernetes.protobuf"
	jsonMedia     = "application/json"
)

// openRaw opens so many watches of a path, each of which is told of so many events, in protobuf or JSON.
func openRaw(ctx context.Context, config *rest.Config, path, media string, watchers, events int) (*rawWatchers, error) {
	r := &rawWatchers{sent: make([]atomic.Int64, events), events: events, step: 1, media: media}
	return r, r.openAll(ctx, config, watchers, func(int) string { return path }, func(int) int { return 0 })
}

// openOwn opens so many watches, each of a path of its own. Watch n is told of every write whose number is n, modulo their count, until it
// has had so many events.
func openOwn(ctx context.Context, config *rest.Config, path func(n int) string, media string, watchers, events int) (*rawWatchers, error) {
	r := &rawWatchers{sent: make([]atomic.Int64, watchers*events), events: events, step: watchers, media: media}
	return r, r.openAll(ctx, config, watchers, path, func(n int) int { return n })
}

// openAll opens the watches on as many connections as they need, and closes those that stand if one does not.
func (r *rawWatchers) openAll(ctx context.Context, config *rest.Config, watchers int, path func(n int) string, first func(n int) int) (err error) {
	r.arrived, r.failed = make(chan struct{}, watchers), make(chan error, watchers+1)
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	for done := 0; done < watchers; {
		c, most, err := r.dial(ctx, config)
		if err != nil {
			return err
		}
		some := min(watchers-done, most)
		at := done
		for n := range some {
			c.streams[uint32(2*n+1)] = &rawStream{first: first(at + n)}
		}
		if err := c.open(config, func(n int) string { return path(at + n) }, some); err != nil {
			return err
		}
		done += some
	}
	return nil
}

// dial connects, and returns how many streams the server lets a connection have.
func (r *rawWatchers) dial(ctx context.Context, config *rest.Config) (*rawConn, int, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, 0, err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, 0, err
	}
	tlsConfig.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: tlsConfig}).DialContext(ctx, "tcp", server.Host)
	if err != nil {
		return nil, 0, err
	}
	c := &rawConn{all: r, conn: conn, framer: http2.NewFramer(conn, conn), opened: make(chan struct{}, cap(r.arrived)), streams: map[uint32]*rawStream{}}
	r.conns = append(r.conns, c)
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return nil, 0, err
	}
	if err := c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}, http2.Setting{ID: http2.SettingEnablePush}); err != nil {
		return nil, 0, err
	}
	if err := c.framer.WriteWindowUpdate(0, window-65535); err != nil {
		return nil, 0, err
	}
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return nil, 0, err
		}
		if settings, ok := frame.(*http2.SettingsFrame); ok && !settings.IsAck() {
			most := 100
			if value, ok := settings.Value(http2.SettingMaxConcurrentStreams); ok {
				most = int(value)
			}
			return c, most, c.framer.WriteSettingsAck()
		}
	}
}

// open begins the watches and waits until all stand.
func (c *rawConn) open(config *rest.Config, path func(n int) string, streams int) error {
	server, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	c.all.reading.Go(func() { c.all.failed <- c.read() })
	for n := range streams {
		block.Reset()
		for _, field := range [][2]string{
			{":method", "GET"}, {":scheme", "https"}, {":authority", server.Host}, {":path", path(n)}, {"accept", c.all.media},
			{"user-agent", "bench"},
		} {
			if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
				return err
			}
		}
		if config.BearerToken != "" {
			if err := encoder.WriteField(hpack.HeaderField{Name: "authorization", Value: "Bearer " + config.BearerToken, Sensitive: true}); err != nil {
				return err
			}
		}
		if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*n + 1), BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
			return err
		}
		select { // one after the other: the server bounds how many requests it takes at a time
		case <-c.opened:
		case err := <-c.all.failed:
			return err
		}
	}
	return nil
}

// read counts what comes until the connection ends. It alone writes, once all streams stand.
func (c *rawConn) read() error {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return err
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if status := f.PseudoValue("status"); status != "200" {
				return fmt.Errorf("a watch was answered %s", status)
			}
			c.opened <- struct{}{}
		case *http2.DataFrame:
			if err := c.count(f); err != nil {
				return err
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				if err := c.framer.WritePing(true, f.Data); err != nil {
					return err
				}
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return fmt.Errorf("%w by %s", errWatchEnded, frame)
		}
	}
}

// errWatchEnded says that the server ended a watch that had more to tell.
var errWatchEnded = errors.New("a watch ended")

// count notes the events that end in a piece of a stream.
func (c *rawConn) count(f *http2.DataFrame) error {
	data, s := f.Data(), c.streams[f.StreamID]
	if f.StreamEnded() {
		return fmt.Errorf("%w after %d events", errWatchEnded, s.events)
	}
	if c.unacked += uint32(len(data)); c.unacked > window/2 {
		if err := c.framer.WriteWindowUpdate(0, c.unacked); err != nil {
			return err
		}
		c.unacked = 0
	}
	now := time.Now().UnixNano()
	if c.all.media == jsonMedia {
		for range bytes.Count(data, []byte("\n")) {
			c.event(s, now)
		}
		return nil
	}
	for len(data) > 0 {
		if s.left == 0 {
			n := min(4-len(s.head), len(data))
			s.head, data = append(s.head, data[:n]...), data[n:]
			if len(s.head) == 4 {
				s.left, s.head = int(binary.BigEndian.Uint32(s.head)), s.head[:0]
			}
			continue
		}
		n := min(s.left, len(data))
		data = data[n:]
		if s.left -= n; s.left > 0 {
			break
		}
		c.event(s, now)
	}
	return nil
}

// event notes an event of a stream. There may be more than were waited for, of what happens to the objects afterwards.
func (c *rawConn) event(s *rawStream, now int64) {
	if s.events >= c.all.events {
		return
	}
	if at := c.all.sent[s.first+s.events*c.all.step].Load(); at != 0 {
		c.took = append(c.took, time.Duration(now-at))
	}
	if s.events++; s.events == c.all.events {
		c.all.arrived <- struct{}{}
	}
}

// wait waits until all have had all, and returns how long each event took whose write's time is known.
func (r *rawWatchers) wait(ctx context.Context) (took []time.Duration, err error) {
	for range cap(r.arrived) {
		select {
		case <-r.arrived:
		case err := <-r.failed:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r.close()
	for _, c := range r.conns {
		took = append(took, c.took...)
	}
	return took, nil
}

func (r *rawWatchers) close() {
	for _, c := range r.conns {
		_ = c.conn.Close()
	}
	r.reading.Wait()
}
