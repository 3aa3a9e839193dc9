package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
)

// forwardedHeaders tell endpoints about the client. Clients' own are not passed on: anybody could write them.
const (
	forwardedFor   = "X-Forwarded-For"
	forwardedProto = "X-Forwarded-Proto"
	forwardedHost  = "X-Forwarded-Host"
)

// peer is where a request came from.
type peer struct {
	client netip.Addr // the zero Addr where the server does not know
	// chain is the X-Forwarded-For to pass on: what a trusted proxy has sent, and who the connection comes from.
	chain       []string
	proto, host string
}

// peer reads who sends a request. Where that is a trusted proxy, the client is the last address that none of them has.
func (p *Proxy) peer(r *http.Request) peer {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	out := peer{client: from.Addr().Unmap(), proto: "http", host: r.Host}
	if r.TLS != nil {
		out.proto = "https"
	}
	out.chain = []string{out.client.String()}
	if !p.trusts(out.client) {
		return out
	}
	before := addresses(r.Header.Values(forwardedFor))
	out.chain = append(before, out.chain...)
	for _, text := range slices.Backward(before) {
		address, err := netip.ParseAddr(text)
		if err != nil {
			break
		}
		if out.client = address.Unmap(); !p.trusts(out.client) {
			break
		}
	}
	if proto := r.Header.Get(forwardedProto); proto == "http" || proto == "https" {
		out.proto = proto
	}
	if host := r.Header.Get(forwardedHost); host != "" {
		out.host = host
	}
	return out
}

func (p *Proxy) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(p.cfg.Trusted, func(prefix netip.Prefix) bool { return prefix.Contains(a) })
}

// addresses parts the values of X-Forwarded-For.
func addresses(values []string) []string {
	var out []string
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

// forward writes the headers; a ReverseProxy has taken out those of the client.
func (f peer) forward(r *httputil.ProxyRequest) {
	r.Out.Header.Set(forwardedFor, strings.Join(f.chain, ", "))
	r.Out.Header.Set(forwardedProto, f.proto)
	r.Out.Header.Set(forwardedHost, f.host)
}
