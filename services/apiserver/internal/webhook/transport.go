package webhook

import (
	"container/list"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"howdah.dev/services/apiserver/internal/weakcert"
)

// Bounds on what is kept: transports (one a webhook's address and CA bundle), and idle connections of each.
const (
	maxTransports = 128
	maxIdle       = 16
	maxRedirects  = 10
	idleTimeout   = 30 * time.Second
	dialTimeout   = 10 * time.Second
	// silence is how long a connection of HTTP/2 may be silent before it is asked whether it lives: calls would be lost on it for minutes.
	silence = 30 * time.Second
)

// Dialer connects to a port of a Service.
type Dialer interface {
	Service(ctx context.Context, namespace, name string, port int32) (net.Conn, error)
}

// transports keeps clients by target; the one that was used least recently goes when there are too many.
type transports struct {
	dialer     Dialer
	weaknesses *weakcert.Weaknesses

	mu     sync.Mutex
	byKey  map[key]*list.Element
	recent list.List // of *kept, the most recent first
}

type key struct {
	url     string
	service Service
	bundle  [sha256.Size]byte
	client  [sha256.Size]byte
}

type kept struct {
	key    key
	client *http.Client
}

func (t *transports) client(target *Target) (*http.Client, error) {
	k := key{bundle: sha256.Sum256(target.CABundle)}
	if c := target.Client; c != nil {
		k.client = sha256.Sum256(slices.Concat(c.Certificate, c.Key, []byte(c.ServerName)))
	}
	if target.Service != nil {
		k.service = *target.Service
		k.service.Path = ""
	} else {
		to, err := target.url()
		if err != nil {
			return nil, err
		}
		k.url = to.Host
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byKey[k]; e != nil {
		t.recent.MoveToFront(e)
		return e.Value.(*kept).client, nil
	}
	client, err := t.make(target)
	if err != nil {
		return nil, err
	}
	if t.byKey == nil {
		t.byKey = map[key]*list.Element{}
	}
	t.byKey[k] = t.recent.PushFront(&kept{k, client})
	if t.recent.Len() > maxTransports {
		oldest := t.recent.Back()
		t.recent.Remove(oldest)
		old := oldest.Value.(*kept)
		delete(t.byKey, old.key)
		old.client.CloseIdleConnections()
	}
	return client, nil
}

func (t *transports) make(target *Target) (*http.Client, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(target.CABundle) > 0 {
		var err error
		if settings.RootCAs, err = roots(target.CABundle); err != nil {
			return nil, fmt.Errorf("unable to load root certificates: %w", err)
		}
	}
	if c := target.Client; c != nil {
		settings.ServerName = c.ServerName
		if len(c.Certificate) > 0 {
			pair, err := tls.X509KeyPair(c.Certificate, c.Key)
			if err != nil {
				return nil, fmt.Errorf("client certificate of a webhook: %w", err)
			}
			settings.Certificates = []tls.Certificate{pair}
		}
	}
	transport := &http.Transport{
		TLSClientConfig: settings, TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTimeout, Protocols: new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(true)
	if s := target.Service; s != nil {
		// HTTP/1.1 alone: over HTTP/2 one connection, and so one endpoint, would take all calls.
		settings.ServerName = s.host()
		service := *s
		if service.Port == 0 {
			service.Port = 443
		}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			if t.dialer == nil {
				return nil, fmt.Errorf("service %q cannot be reached from here", service.Name)
			}
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			return t.dialer.Service(ctx, service.Namespace, service.Name, service.Port)
		}
	} else {
		transport.Protocols.SetHTTP2(true)
		transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: dialTimeout}
		transport.Proxy = http.ProxyFromEnvironment
		transport.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	return &http.Client{
		Transport: t.weaknesses.Wrap(transport),
		// As Kubernetes' client does, but never to where what an apiserver knows could be read on the way.
		CheckRedirect: func(next *http.Request, before []*http.Request) error {
			switch {
			case next.URL.Scheme != "https":
				return fmt.Errorf("redirected to %q, which is not https", next.URL.Redacted())
			case len(before) >= maxRedirects:
				return fmt.Errorf("stopped after %d redirects", maxRedirects)
			}
			return nil
		},
	}, nil
}

// roots are the certificates of a bundle, of which one at least must be sound.
func roots(bundle []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if pool.AppendCertsFromPEM(bundle) {
		return pool, nil
	}
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("failed to parse certificate: %w", err)
		}
	}
	return nil, errors.New("unable to parse bytes as PEM block")
}

func (t *transports) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := t.recent.Front(); e != nil; e = e.Next() {
		e.Value.(*kept).client.CloseIdleConnections()
	}
	t.byKey = nil
	t.recent.Init()
}
