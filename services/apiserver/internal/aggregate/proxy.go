package aggregate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clienttransport "k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/relay"
	"howdah.dev/services/apiserver/internal/weakcert"
)

// maxIdle bounds the idle connections to one extension API server.
const maxIdle = 16

// self is who the apiserver is to extension API servers when it asks for itself.
var self = authn.User{Name: "system:kube-aggregator", Groups: []string{"system:masters", "system:authenticated"}}

// transport is the way to one extension API server, as one spec of its APIService says.
type transport struct {
	*weakcert.Transport
	spec string
}

// transport returns the way to an APIService's server. Connections are kept while its spec stays.
func (a *Aggregator) transport(s *apiregistrationv1.APIService) (*transport, error) {
	spec := specOf(s)
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.transports[s.Name]; t != nil && t.spec == spec {
		return t, nil
	}
	settings := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: s.Spec.Service.Name + "." + s.Spec.Service.Namespace + ".svc",
		InsecureSkipVerify: s.Spec.InsecureSkipTLSVerify, //nolint:gosec // as its owner asks
	}
	if len(s.Spec.CABundle) > 0 {
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(s.Spec.CABundle) {
			return nil, errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	if a.cfg.Certificate != nil {
		settings.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return a.cfg.Certificate(), nil }
	}
	service, number := *s.Spec.Service, port(s)
	a.drop(s.Name)
	t := &transport{spec: spec, Transport: a.weaknesses.Wrap(&http.Transport{
		TLSClientConfig: settings, TLSHandshakeTimeout: checkTimeout, DisableCompression: true,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: longest,
		// HTTP/1.1: over HTTP/2 one connection, and so one endpoint, would take all requests.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			return a.cfg.Network.Service(ctx, service.Namespace, service.Name, number)
		},
	})}
	a.transports[s.Name] = t
	return t, nil
}

// drop lets go of a transport; requests on their way keep their connections. a.mu is held.
func (a *Aggregator) drop(name string) {
	if t := a.transports[name]; t != nil {
		t.CloseIdleConnections()
		delete(a.transports, name)
	}
}

func port(s *apiregistrationv1.APIService) int32 {
	if s.Spec.Service.Port == nil {
		return 443
	}
	return *s.Spec.Service.Port
}

// identify tells who makes a request, and nothing that the client has told of that itself.
func identify(r *http.Request, user *authn.User) {
	for name := range r.Header {
		if strings.HasPrefix(strings.ToLower(name), "x-remote-") {
			r.Header.Del(name)
		}
	}
	clienttransport.SetAuthProxyHeaders(r, user.Name, user.UID, user.Groups, user.Extra)
}

// Serve passes a request, who has been allowed to make it, on to the server of an APIService.
func (a *Aggregator) Serve(ctx context.Context, caller relay.Caller, open *apiv1.ConnectOpen, s *apiregistrationv1.APIService, user *authn.User) error {
	if !a.available(s) {
		return unavailable(caller)
	}
	t, err := a.transport(s)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	target := &url.URL{Scheme: "https", Host: a.backing.host(s), RawQuery: open.GetQuery()}
	if target.Path, err = url.PathUnescape(open.GetPath()); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	target.RawPath = open.GetPath()
	err = relay.Serve(ctx, caller, open, target, t, func(r *http.Request) {
		identify(r, user)
		if id := audit.OriginOf(ctx).AuditID; id != "" { // so that the events of both belong together
			r.Header.Set("Audit-ID", id)
		}
	})
	if (apierrors.IsServiceUnavailable(err) || relay.BrokeOff(err)) && ctx.Err() == nil {
		a.poke(s.Name)
	}
	return err
}

// available is what the last check found, or what the object says where this process has not checked it yet.
func (a *Aggregator) available(s *apiregistrationv1.APIService) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.known[s.Name]; k != nil {
		return k.available
	}
	for _, c := range s.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			return c.Status == apiregistrationv1.ConditionTrue
		}
	}
	return false
}

// poke makes an APIService be checked at once.
func (a *Aggregator) poke(name string) {
	a.mu.Lock()
	if k := a.known[name]; k != nil {
		k.due = a.cfg.Clock.Now()
	}
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// unavailable answers in Kubernetes' words, which are no Status.
func unavailable(caller relay.Caller) error {
	body := []byte("service unavailable\n")
	accepted := &apiv1.ConnectAccepted{Code: http.StatusServiceUnavailable, Headers: []*apiv1.Header{
		{Name: "Content-Type", Value: "text/plain; charset=utf-8"}, {Name: "X-Content-Type-Options", Value: "nosniff"},
		{Name: "Content-Length", Value: fmt.Sprint(len(body))},
	}}
	if err := caller.Send(&apiv1.ConnectResponse{Message: &apiv1.ConnectResponse_Accepted{Accepted: accepted}}); err != nil {
		return err
	}
	return caller.Send(&apiv1.ConnectResponse{Message: &apiv1.ConnectResponse_Frame{Frame: &apiv1.ConnectFrame{Channel: 1, Data: body}}})
}
