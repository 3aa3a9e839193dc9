package route

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// filters compiles those of a rule, or of a backend. A filter that is not known fails every request, which the rule then says.
func (g *gateways) filters(r *gatewayRoute, at *gateway, all []gatewayv1.HTTPRouteFilter, c *compiled, rule *Rule) (Filters, error) {
	var out Filters
	for n := range all {
		f := &all[n]
		switch f.Type {
		case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
			out.Request = append(out.Request, headers(f.RequestHeaderModifier))
		case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
			out.Response = append(out.Response, headers(f.ResponseHeaderModifier))
		case gatewayv1.HTTPRouteFilterRequestRedirect:
			redirect, err := redirect(f.RequestRedirect)
			if err != nil {
				return out, err
			}
			out.Redirect = redirect
		case gatewayv1.HTTPRouteFilterURLRewrite:
			path, err := pathChange(f.URLRewrite.Path)
			if err != nil {
				return out, err
			}
			out.Rewrite = &Rewrite{Host: string(ptr.Deref(f.URLRewrite.Hostname, "")), Path: path}
		case gatewayv1.HTTPRouteFilterRequestMirror:
			out.Mirrors = append(out.Mirrors, g.mirror(r, at, f.RequestMirror, c))
		case gatewayv1.HTTPRouteFilterCORS:
			out.CORS = cors(f.CORS)
		case gatewayv1.HTTPRouteFilterExtensionRef:
			c.refs.refuse(string(gatewayv1.RouteReasonInvalidKind), "filters of the kind %q are not known", f.ExtensionRef.Kind)
			rule.Code = 500
		default:
			return out, fmt.Errorf("the filter %s cannot act here", f.Type)
		}
	}
	return out, nil
}

func headers(f *gatewayv1.HTTPHeaderFilter) Headers {
	lines := func(all []gatewayv1.HTTPHeader) []Header {
		var out []Header
		for _, h := range all {
			out = append(out, Header{canonicalHeader(string(h.Name)), h.Value})
		}
		return out
	}
	out := Headers{Set: lines(f.Set), Add: lines(f.Add)}
	for _, name := range f.Remove {
		out.Remove = append(out.Remove, canonicalHeader(name))
	}
	return out
}

func redirect(f *gatewayv1.HTTPRequestRedirectFilter) (*Redirect, error) {
	path, err := pathChange(f.Path)
	return &Redirect{
		Scheme: ptr.Deref(f.Scheme, ""), Host: string(ptr.Deref(f.Hostname, "")), Port: ptr.Deref(f.Port, 0), Path: path, Code: ptr.Deref(f.StatusCode, 302),
	}, err
}

func pathChange(m *gatewayv1.HTTPPathModifier) (*PathChange, error) {
	switch {
	case m == nil:
		return nil, nil
	case m.Type == gatewayv1.FullPathHTTPPathModifier:
		full := ptr.Deref(m.ReplaceFullPath, "")
		if !strings.HasPrefix(full, "/") {
			full = "/" + full
		}
		return &PathChange{Full: &full}, nil
	case m.Type == gatewayv1.PrefixMatchHTTPPathModifier:
		prefix := ptr.Deref(m.ReplacePrefixMatch, "")
		if prefix != "" && !strings.HasPrefix(prefix, "/") {
			prefix = "/" + prefix
		}
		return &PathChange{Prefix: prefix}, nil
	}
	return nil, fmt.Errorf("the change of the path %q is not known", m.Type)
}

func (g *gateways) mirror(r *gatewayRoute, at *gateway, f *gatewayv1.HTTPRequestMirrorFilter, c *compiled) Mirror {
	out := Mirror{Backend: g.gatewayBackend(r, at, f.BackendRef, c, r.kind == "GRPCRoute"), Share: 1, Of: 1}
	switch {
	case f.Percent != nil:
		out.Share, out.Of = *f.Percent, 100
	case f.Fraction != nil:
		out.Share, out.Of = f.Fraction.Numerator, max(ptr.Deref(f.Fraction.Denominator, 100), 1)
	}
	return out
}

func cors(f *gatewayv1.HTTPCORSFilter) *CORS {
	out := &CORS{Credentials: ptr.Deref(f.AllowCredentials, false), MaxAge: f.MaxAge}
	if out.MaxAge == 0 {
		out.MaxAge = 5
	}
	for _, o := range f.AllowOrigins {
		out.Origins = append(out.Origins, string(o))
	}
	for _, m := range f.AllowMethods {
		out.Methods = append(out.Methods, string(m))
	}
	for _, h := range f.AllowHeaders {
		out.Headers = append(out.Headers, string(h))
	}
	for _, h := range f.ExposeHeaders {
		out.Expose = append(out.Expose, string(h))
	}
	return out
}
