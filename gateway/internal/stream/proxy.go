package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// hopByHop are the headers that belong to one connection, and end here.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// told are the headers that tell the target of the request as it came here; a client's own do not pass for them.
var told = []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Uri"}

// proxy passes an HTTP request on to a pod, service or node, upgrades included.
func (s *session) proxy() error {
	open := s.open()
	if s.info.Path != "" {
		open.Path = "/" + s.info.Path
	}
	if s.info.TrailingSlash {
		open.Path += "/"
	}
	return s.pass(open)
}

// remote passes a request on to the extension API server of a group version, whole.
func (s *session) remote(group, version string) error {
	open := &apiv1.ConnectOpen{Group: group, Version: version, Method: s.r.Method, Query: s.r.URL.RawQuery, Path: s.r.URL.EscapedPath()}
	if s.info.IsResource() {
		open.Resource, open.Namespace, open.Name, open.Subresource = s.info.Resource, s.info.Namespace, s.info.Name, s.info.Subresource
	}
	return s.pass(open)
}

// pass makes the call of open and carries the request's body there and the answer back.
func (s *session) pass(open *apiv1.ConnectOpen) error {
	ctx, cancel := context.WithCancel(s.r.Context())
	defer cancel()
	upgrade := hasToken(s.r.Header, "Connection", "upgrade")
	open.Headers = s.forwarded(upgrade)
	c, err := s.begin(ctx, open)
	if err != nil {
		return err
	}
	_ = http.NewResponseController(s.w).EnableFullDuplex() // HTTP/2 is so anyway
	sent := make(chan struct{})
	if upgrade {
		close(sent)
	} else {
		go func() {
			defer close(sent)
			_ = c.copyIn(requestBody, s.r.Body) // the answer tells what went wrong
		}()
	}
	defer func() {
		cancel()
		_ = s.r.Body.Close()
		<-sent
	}()
	accepted, err := c.accepted()
	if err != nil {
		return err
	}
	if accepted.GetCode() == http.StatusSwitchingProtocols && upgrade {
		return s.switchProtocols(ctx, cancel, c, accepted)
	}
	copyHeaders(s.w.Header(), accepted.GetHeaders())
	s.w.WriteHeader(max(int(accepted.GetCode()), http.StatusOK))
	controller := http.NewResponseController(s.w)
	for {
		frame, err := c.receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			panic(http.ErrAbortHandler) // a part must not pass for the whole
		}
		if frame.GetChannel() != responseBody || len(frame.GetData()) == 0 {
			continue
		}
		if _, err := s.w.Write(frame.GetData()); err != nil {
			return nil // the client has gone
		}
		_ = controller.Flush() // it may be a stream
	}
}

// forwarded returns the headers that the target sees: not those of this
// connection, and none that says who the caller is.
func (s *session) forwarded(upgrade bool) []*apiv1.Header {
	var out []*apiv1.Header
	dropped := slices.Clone(hopByHop)
	for _, line := range s.r.Header.Values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			dropped = append(dropped, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	for name, values := range s.r.Header {
		if slices.Contains(told, name) {
			continue
		}
		lower := strings.ToLower(name)
		if name == "Authorization" || strings.HasPrefix(lower, "impersonate-") || strings.HasPrefix(lower, "howdah-") {
			continue
		}
		if slices.Contains(dropped, name) && !(upgrade && (name == "Connection" || name == "Upgrade")) {
			continue
		}
		for _, value := range values {
			out = append(out, &apiv1.Header{Name: name, Value: value})
		}
	}
	if hasToken(s.r.Header, "Te", "trailers") { // what gRPC clients insist on
		out = append(out, &apiv1.Header{Name: "Te", Value: "trailers"})
	}
	if s.r.ContentLength >= 0 { // otherwise it is not known
		out = append(out, &apiv1.Header{Name: "Content-Length", Value: fmt.Sprint(s.r.ContentLength)})
	}
	if path := s.path(); path != "" {
		out = append(out, &apiv1.Header{Name: "X-Forwarded-For", Value: path})
	}
	return append(out,
		&apiv1.Header{Name: "X-Forwarded-Host", Value: s.r.Host},
		&apiv1.Header{Name: "X-Forwarded-Proto", Value: "https"},
		&apiv1.Header{Name: "X-Forwarded-Uri", Value: s.r.URL.EscapedPath()},
	)
}

// path is where the request comes from: what proxies before this one say, and who asks here.
func (s *session) path() string {
	hops := s.r.Header.Values("X-Forwarded-For")
	if host, _, err := net.SplitHostPort(s.r.RemoteAddr); err == nil {
		hops = append(slices.Clone(hops), host)
	}
	return strings.Join(hops, ", ")
}

func copyHeaders(to http.Header, from []*apiv1.Header) {
	fresh := map[string]bool{}
	for _, h := range from {
		name := http.CanonicalHeaderKey(h.GetName())
		if slices.Contains(hopByHop, name) {
			continue
		}
		if !fresh[name] { // the target's own word counts, Cache-Control above all
			to.Del(name)
			fresh[name] = true
		}
		to.Add(name, h.GetValue())
	}
}

// switchProtocols hands the connection over: from now on bytes pass as they are.
func (s *session) switchProtocols(ctx context.Context, cancel context.CancelFunc, c *call, accepted *apiv1.ConnectAccepted) error {
	conn, buffer, err := http.NewResponseController(s.w).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	header := http.Header{}
	for _, h := range accepted.GetHeaders() {
		header.Add(h.GetName(), h.GetValue())
	}
	response := http.Response{StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Header: header}
	if response.Write(conn) != nil {
		return nil // the client has gone
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c.copyIn(requestBody, bufferedReader(buffer)) != nil {
			cancel()
		}
	}()
	for {
		frame, err := c.receive()
		if err != nil {
			break
		}
		if frame.GetChannel() == responseBody {
			if _, err := conn.Write(frame.GetData()); err != nil {
				break
			}
		}
	}
	cancel()
	_ = conn.Close()
	<-done
	return nil
}

func bufferedReader(b *bufio.ReadWriter) io.Reader { return b.Reader }
