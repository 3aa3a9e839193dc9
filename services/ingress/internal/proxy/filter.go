package proxy

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"howdah.dev/services/ingress/internal/route"
)

// find decides what a rule of a Gateway's route does with a request. It returns false where it has answered the request itself.
func (e *exchange) find(w *answer, r *http.Request) bool {
	rule := e.route.Rule
	if c := rule.Filters.CORS; c != nil {
		e.origin = c.Origin(r.Header.Get("Origin"))
		if r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" {
			e.preflight(w, r)
			return false
		}
	}
	if rule.Code != 0 {
		e.refuse(w, r, "a filter of this path's rule is not known", rule.Code)
		return false
	}
	if to := rule.Filters.Redirect; to != nil {
		w.Header().Set("Location", e.location(to, r))
		e.shared(w.Header())
		for n := range rule.Filters.Response {
			rule.Filters.Response[n].Apply(w.Header())
		}
		w.WriteHeader(to.Code)
		return false
	}
	e.target, e.patient = rule.Target(), rule.Patient
	switch {
	case e.target == nil:
		e.refuse(w, r, "this path leads to no backend", http.StatusInternalServerError)
	case e.target.Backend.Problem != "":
		e.backend = e.target.Backend
		e.refuse(w, r, "the backend of this path cannot be asked", http.StatusInternalServerError)
	case len(e.target.Backend.Endpoints) == 0:
		e.backend = e.target.Backend
		e.refuse(w, r, "there is no backend for this path now", http.StatusServiceUnavailable)
	default:
		e.backend = e.target.Backend
		return true
	}
	return false
}

// refuse answers with an error, in the way of gRPC where that is asked for.
func (e *exchange) refuse(w http.ResponseWriter, r *http.Request, text string, code int) {
	e.shared(w.Header())
	if e.route != nil && e.route.Kind != "GRPCRoute" || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		http.Error(w, text, code)
		return
	}
	status := 14 // UNAVAILABLE
	switch code {
	case http.StatusNotFound:
		status = 12 // UNIMPLEMENTED
	case http.StatusGatewayTimeout:
		status = 4 // DEADLINE_EXCEEDED
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Grpc-Status", strconv.Itoa(status))
	w.Header().Set("Grpc-Message", text)
	if a, ok := w.(*answer); ok {
		a.code = code // in metrics and spans
	}
	w.WriteHeader(http.StatusOK)
}

// location is where a redirection leads.
func (e *exchange) location(to *route.Redirect, r *http.Request) string {
	scheme, port := e.peer.proto, to.Port
	if to.Scheme != "" {
		scheme = strings.ToLower(to.Scheme)
	}
	usual := map[string]int32{"http": 80, "https": 443}[scheme]
	if port == 0 && to.Scheme != "" {
		port = usual
	}
	if port == 0 {
		port = e.port
	}
	host := to.Host
	if host == "" {
		if host = r.Host; strings.Contains(host, ":") {
			if name, _, err := net.SplitHostPort(host); err == nil {
				host = name
			}
		}
	}
	if port != usual {
		host = net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(port)))
	} else if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	path := r.URL.EscapedPath()
	if to.Path != nil {
		path = to.Path.Of(path, e.route)
	}
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	return scheme + "://" + host + path
}

// changed makes of a request what the filters say, and sends the copies that they ask for.
func (p *Proxy) changed(r *httputil.ProxyRequest, e *exchange) {
	if e.target == nil {
		return
	}
	for _, f := range []*route.Filters{&e.route.Rule.Filters, &e.target.Filters} {
		for n := range f.Request {
			f.Request[n].Apply(r.Out.Header)
		}
		if host := r.Out.Header.Get("Host"); host != "" {
			r.Out.Host = host
			r.Out.Header.Del("Host")
		}
		if to := f.Rewrite; to != nil {
			if to.Host != "" {
				r.Out.Host = to.Host
			}
			if to.Path != nil {
				setPath(r.Out.URL, to.Path.Of(r.In.URL.EscapedPath(), e.route))
			}
		}
	}
	for _, f := range []*route.Filters{&e.route.Rule.Filters, &e.target.Filters} {
		for n := range f.Mirrors {
			p.mirror(r.Out, e, &f.Mirrors[n])
		}
	}
}

func setPath(u *url.URL, escaped string) {
	path, err := url.PathUnescape(escaped)
	if err != nil {
		u.Path, u.RawPath = escaped, ""
		return
	}
	u.Path, u.RawPath = path, escaped
}

// answered makes of an endpoint's answer what the filters say.
func (p *Proxy) answered(response *http.Response) error {
	e, ok := response.Request.Context().Value(exchangeKey{}).(*exchange)
	if !ok || e.target == nil {
		return nil
	}
	for _, f := range []*route.Filters{&e.target.Filters, &e.route.Rule.Filters} {
		for n := range f.Response {
			f.Response[n].Apply(response.Header)
		}
	}
	e.shared(response.Header)
	return nil
}

// shared tells a browser whether a page of another origin may see the answer. What the endpoint says of that does not count where a filter does.
func (e *exchange) shared(h http.Header) {
	if e.route == nil || e.route.Rule == nil || e.route.Rule.Filters.CORS == nil {
		return
	}
	c := e.route.Rule.Filters.CORS
	for _, name := range []string{"Origin", "Credentials", "Methods", "Headers"} {
		h.Del("Access-Control-Allow-" + name)
	}
	h.Del("Access-Control-Expose-Headers")
	h.Add("Vary", "Origin")
	if e.origin == "" {
		return
	}
	h.Set("Access-Control-Allow-Origin", e.origin)
	if c.Credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	if len(c.Expose) > 0 && !(c.Credentials && c.Expose[0] == "*") {
		h.Set("Access-Control-Expose-Headers", strings.Join(c.Expose, ", "))
	}
}

// preflight answers a browser that asks what a page of another origin may do.
func (e *exchange) preflight(w *answer, r *http.Request) {
	c, h := e.route.Rule.Filters.CORS, w.Header()
	e.shared(h)
	if e.origin != "" {
		if methods := listed(c.Methods, r.Header.Get("Access-Control-Request-Method")); methods != "" {
			h.Set("Access-Control-Allow-Methods", methods)
		}
		if headers := listed(c.Headers, r.Header.Get("Access-Control-Request-Headers")); headers != "" {
			h.Set("Access-Control-Allow-Headers", headers)
		}
		h.Set("Access-Control-Max-Age", strconv.Itoa(int(c.MaxAge)))
	}
	w.WriteHeader(http.StatusNoContent)
}

// listed is what is allowed; where everything is, it is what was asked for.
func listed(allowed []string, asked string) string {
	if len(allowed) == 1 && allowed[0] == "*" {
		return asked
	}
	return strings.Join(allowed, ", ")
}
