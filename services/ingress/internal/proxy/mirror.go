package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"howdah.dev/services/ingress/internal/route"
)

const (
	// mirrorsAtOnce bounds the copies of requests under way; further ones are not made.
	mirrorsAtOnce = 256
	// mirroredBody is the longest body that is copied.
	mirroredBody = 1 << 20
)

// mirror sends a copy of a request where a filter says, once its body has been read. Nobody waits for it.
func (p *Proxy) mirror(r *http.Request, e *exchange, m *route.Mirror) {
	if !m.Chosen() || len(m.Backend.Endpoints) == 0 || r.Header.Get("Upgrade") != "" {
		return
	}
	copied := r.Clone(context.WithValue(p.base, exchangeKey{}, &exchange{route: e.route, backend: m.Backend, peer: e.peer}))
	if r.Body == nil || r.Body == http.NoBody {
		p.send(copied, nil)
		return
	}
	if r.ContentLength > mirroredBody {
		p.cfg.Metrics.mirrored.WithLabelValues("dropped").Inc()
		return
	}
	r.Body = &copying{ReadCloser: r.Body, whole: func(body []byte) { p.send(copied, body) }, tooLong: func() { p.cfg.Metrics.mirrored.WithLabelValues("dropped").Inc() }}
}

// copying is a body that is kept as it is read.
type copying struct {
	io.ReadCloser
	kept    bytes.Buffer
	over    bool
	whole   func([]byte)
	tooLong func()
}

func (c *copying) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if c.over {
		return n, err
	}
	if c.kept.Len()+n > mirroredBody {
		c.over = true
		c.tooLong()
		return n, err
	}
	c.kept.Write(b[:n])
	if err == io.EOF {
		c.over = true
		c.whole(c.kept.Bytes())
	}
	return n, err
}

// send sends a copy, unless too many are under way.
func (p *Proxy) send(r *http.Request, body []byte) {
	select {
	case p.mirrors <- struct{}{}:
	default:
		p.cfg.Metrics.mirrored.WithLabelValues("dropped").Inc()
		return
	}
	p.handlers.Go(func() {
		defer func() { <-p.mirrors }()
		ctx, cancel := context.WithTimeout(r.Context(), p.cfg.Limits.Answer)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, 0, nil
		if len(body) > 0 {
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		e := r.Context().Value(exchangeKey{}).(*exchange)
		defer e.release()
		response, err := p.transport.RoundTrip(r)
		if err != nil {
			p.cfg.Metrics.mirrored.WithLabelValues("failed").Inc()
			return
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, mirroredBody))
		p.cfg.Metrics.mirrored.WithLabelValues("sent").Inc()
	})
}
