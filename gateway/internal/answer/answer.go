// Package answer writes what the gateway itself has to say: a metav1.Status
// in the encoding that the client asked for.
package answer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"

	"howdah.dev/gateway/internal/report"
	"howdah.dev/gateway/internal/request"
	"howdah.dev/kit/apistatus"
)

// Encodings of an answer.
const (
	JSON     = "application/json"
	YAML     = "application/yaml"
	Protobuf = "application/vnd.kubernetes.protobuf"
	CBOR     = "application/cbor"
)

// The messages of the 404 of a path at which nothing is served, and of the 405 of a method that does not go with a path.
const (
	unserved   = "the server could not find the requested resource"
	notAllowed = "the server does not allow this method on the requested resource"
)

type cborKey struct{}

// WithCBOR marks the context of a request that may be answered in CBOR.
func WithCBOR(ctx context.Context) context.Context { return context.WithValue(ctx, cborKey{}, true) }

// Error answers with the Status of err, unless the request's time is over: that is what it has failed for then.
func Error(w http.ResponseWriter, r *http.Request, err error) {
	if Late(r) {
		timedOut(w, r)
		return
	}
	Status(w, r, apistatus.Of(err))
}

// Late reports whether the request's time is over.
func Late(r *http.Request) bool {
	deadline, ok := r.Context().Deadline()
	return ok && !time.Now().Before(deadline)
}

// timedOut answers as Kubernetes does: in a form that depends on nothing that the client asked for.
func timedOut(w http.ResponseWriter, r *http.Request) {
	s := apistatus.Of(apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0))
	s.TypeMeta = metav1.TypeMeta{}
	report.Refused(r.Context(), &s)
	body, _ := json.Marshal(s) // a Status holds nothing that JSON cannot
	body = append(body, '\n')
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusGatewayTimeout)
	_, _ = w.Write(body)
}

// Status answers with a Status and its code. Where the Status says when to
// come again, so does the Retry-After header.
func Status(w http.ResponseWriter, r *http.Request, s metav1.Status) {
	report.Refused(r.Context(), &s)
	if s.Code == http.StatusNotFound && s.Message == apistatus.PageNotFound {
		http.Error(w, s.Message, http.StatusNotFound)
		return
	}
	if s.Code == http.StatusInternalServerError && strings.HasPrefix(s.Message, apistatus.Undecided) {
		http.Error(w, s.Message, http.StatusInternalServerError)
		return
	}
	if s.Code == http.StatusTooManyRequests && s.Message == apistatus.TooManyRequests {
		retryAfter(w, s)
		http.Error(w, s.Message, http.StatusTooManyRequests)
		return
	}
	withCBOR := r.Context().Value(cborKey{}) != nil && !unrouted(s)
	taken := negotiated(strings.Join(r.Header.Values("Accept"), ","), withCBOR)
	contentType := cmp.Or(taken, JSON)
	body := Encode(s, contentType)
	// What is not what the client takes is for people, too.
	if contentType == JSON && (taken == "" || Pretty(r)) {
		body = Indented(body)
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if unauthorized(s) {
		h.Set("X-Content-Type-Options", "nosniff")
	}
	retryAfter(w, s)
	w.WriteHeader(code(s))
	_, _ = w.Write(body)
}

// unrouted reports whether a Status tells that there is no handler for a request's path, method or encodings. Those who tell that do not know CBOR, in
// Kubernetes as here.
func unrouted(s metav1.Status) bool {
	switch s.Code {
	case http.StatusNotFound:
		return s.Message == unserved
	case http.StatusMethodNotAllowed:
		return s.Message == notAllowed
	case http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
		return strings.HasPrefix(s.Message, strconv.Itoa(int(s.Code))+": ")
	}
	return false
}

// Incomplete answers a path that ends where a resource has to be named, which nobody can be asked about: as Kubernetes, not with a Status.
func Incomplete(w http.ResponseWriter, r *http.Request) {
	text := fmt.Sprintf("Internal Server Error: %q: failed to create RequestInfo: unable to determine kind and namespace from url, %v", r.RequestURI, r.URL)
	w.Header().Del("Cache-Control") // which Kubernetes says of what it can tell
	http.Error(w, strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text), http.StatusInternalServerError)
}

// retryAfter tells when to come again, where the Status does.
func retryAfter(w http.ResponseWriter, s metav1.Status) {
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
}

// unauthorized reports whether a request was refused by authorization, and not by admission or the object's own rules: Kubernetes answers
// that with a header more.
func unauthorized(s metav1.Status) bool {
	if s.Code == http.StatusBadRequest && strings.HasPrefix(s.Message, "requested &user.DefaultInfo{") { // to act as somebody who has no name
		return true
	}
	return s.Code == http.StatusForbidden && (strings.HasPrefix(s.Message, `forbidden: User "`) || strings.Contains(s.Message, ` is forbidden: User "`))
}

// Pretty reports whether people read the answer: as the query says or, where it says nothing, the Accept header or the user agent.
func Pretty(r *http.Request) bool {
	if strings.Contains(r.Header.Get("Accept"), "pretty=1") {
		return true
	}
	if text := r.URL.Query().Get("pretty"); text != "" {
		asked, _ := strconv.ParseBool(text) // what is no boolean is false
		return asked
	}
	return request.Human(r.UserAgent())
}

// Indented is JSON in the form that people read, which ends without a newline.
func Indented(body []byte) []byte {
	var b bytes.Buffer
	if json.Indent(&b, bytes.TrimSuffix(body, []byte("\n")), "", "  ") != nil {
		return body
	}
	return b.Bytes()
}

func code(s metav1.Status) int {
	if s.Code >= 100 && s.Code < 1000 {
		return int(s.Code)
	}
	return http.StatusInternalServerError
}

// Encode returns a Status in one of the encodings.
func Encode(s metav1.Status, contentType string) []byte {
	s.Kind, s.APIVersion = "Status", "v1"
	switch contentType {
	case Protobuf:
		scheme := runtime.NewScheme()
		scheme.AddKnownTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{})
		var b bytes.Buffer
		if err := protobuf.NewSerializer(scheme, scheme).Encode(&s, &b); err == nil {
			return b.Bytes()
		}
	case CBOR:
		var b bytes.Buffer
		if err := cbor.NewSerializer(nil, nil).Encode(&s, &b); err == nil {
			return b.Bytes()
		}
	case YAML:
		if b, err := yaml.Marshal(s); err == nil {
			return b
		}
	}
	b, err := json.Marshal(s)
	if err != nil { // a Status holds nothing that JSON cannot
		return fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":%q}`, err.Error())
	}
	return append(b, '\n')
}

// Negotiate picks the encoding of an Accept header: the most wanted that
// there is, and JSON where none is. CBOR is there where withCBOR says so.
func Negotiate(accept string, withCBOR bool) string {
	return cmp.Or(negotiated(accept, withCBOR), JSON)
}

// negotiated is Negotiate, but that it picks none where none of those that the client takes is there. The header is read as leniently as
// Kubernetes reads it, and in its order.
func negotiated(accept string, withCBOR bool) string {
	if strings.TrimSpace(accept) == "" {
		return JSON
	}
	for _, wish := range goautoneg.ParseAccept(accept) {
		params := wish.Params
		if params["as"] != "" || params["g"] != "" || params["v"] != "" { // a Status is never turned into anything
			continue
		}
		mediaType := wish.Type + "/" + wish.SubType
		if stream := params["stream"]; stream != "" && (stream != "watch" || mediaType == YAML) { // there are no such streams
			continue
		}
		switch mediaType {
		case JSON, "*/*", "application/*":
			return JSON
		case YAML, Protobuf:
			return mediaType
		case CBOR:
			if withCBOR {
				return CBOR
			}
		}
	}
	return ""
}

// NotFound is what Kubernetes answers where a path means nothing.
func NotFound() metav1.Status {
	return failure(http.StatusNotFound, metav1.StatusReasonNotFound, unserved)
}

// PageNotFound is what Kubernetes answers where there is no API.
func PageNotFound() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: apistatus.PageNotFound}
}

// NotAllowed is what Kubernetes answers where a method does not go with a path.
func NotAllowed() metav1.Status {
	return failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, notAllowed)
}

// Unsupported is what Kubernetes answers where a body's encoding does not go with a path.
func Unsupported() metav1.Status {
	return failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "415: Unsupported Media Type")
}

// Unauthorized is what Kubernetes answers where credentials are wanting.
func Unauthorized() metav1.Status {
	s := failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	s.Details = nil
	return s
}

func failure(code int32, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{}}
}
