package codec

import (
	"fmt"
	"mime"
	"net/http"
	"sort"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

// Media is an encoding.
type Media uint8

// The encodings.
const (
	JSON Media = iota
	YAML
	Protobuf
	CBOR
)

// String is the media type.
func (m Media) String() string {
	switch m {
	case YAML:
		return "application/yaml"
	case Protobuf:
		return "application/vnd.kubernetes.protobuf"
	case CBOR:
		return "application/cbor"
	}
	return "application/json"
}

// As is what an object is turned into before it is encoded.
type As uint8

// The transformations.
const (
	Whole As = iota
	Table
	PartialMetadata
)

// Form is how a client wants its answer.
type Form struct {
	Media  Media
	As     As
	Beta   bool // meta.k8s.io/v1beta1 rather than v1, of a Table or PartialObjectMetadata
	Pretty bool
	// Include is the includeObject option of tables: "", None, Metadata or Object.
	Include metav1.IncludeObjectPolicy
}

// ContentType is the media type of the answer.
func (f Form) ContentType() string { return f.Media.String() }

type clause struct {
	media  string
	params map[string]string
	q      float64
	order  int
}

// Offer says which encodings are offered beside JSON, YAML and protobuf.
type Offer struct {
	CBOR bool
}

// accepted lists what is offered, as the error of a refused request says it.
func (o Offer) accepted() string {
	const always = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
	if o.CBOR {
		return always + ", application/cbor"
	}
	return always
}

// streams lists what watches are offered as.
func (o Offer) streams() string {
	const always = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
	if o.CBOR {
		return always + ", application/cbor-seq"
	}
	return always
}

// Negotiate picks the form that an Accept header asks for. An empty header is JSON. It fails with 406 where nothing
// that is asked for is offered.
func (o Offer) Negotiate(accept, pretty, include string) (Form, error) {
	form := Form{Pretty: truth(pretty), Include: metav1.IncludeObjectPolicy(include)}
	switch accept { // what nearly every request says
	case "", "application/json", "*/*":
		return form, nil
	case "application/vnd.kubernetes.protobuf":
		form.Media, form.Pretty = Protobuf, false
		return form, nil
	}
	for _, c := range parseAccept(accept) {
		if f, ok := c.form(form, o); ok {
			return f, nil
		}
	}
	return form, o.NotAcceptable()
}

// truth reads a boolean; what is none is false.
func truth(text string) bool {
	value, err := strconv.ParseBool(text)
	return err == nil && value
}

// Route fails where no handler offers any of the media types that an Accept header names, whatever its parameters say. It comes before
// Negotiate; streams says that the handler also watches.
func (o Offer) Route(accept string, streams bool) error {
	switch accept { // what nearly every request says
	case "", "application/json", "*/*", "application/vnd.kubernetes.protobuf":
		return nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(part, ";")
		switch strings.TrimSpace(media) {
		case "*/*", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf":
			return nil
		case "application/cbor":
			if o.CBOR {
				return nil
			}
		}
	}
	offered := o.accepted()
	if streams {
		offered += ", " + o.streams()
	}
	return unrouted(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "406: Not Acceptable\n\nAvailable representations: "+offered)
}

// UnroutedMedia is the 415 of a body in an encoding for which there is no handler.
func UnroutedMedia() error {
	return unrouted(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "415: Unsupported Media Type")
}

func unrouted(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{},
	}}
}

// NegotiateStream is Negotiate for a watch. One that is wanted in YAML before all others fails: it is not offered.
func (o Offer) NegotiateStream(accept, include string) (Form, error) {
	form, err := o.Negotiate(accept, "", include)
	if err == nil && form.Media == YAML {
		err = NotAcceptable(o.streams())
	}
	return form, err
}

// Fits refuses what a list or an object alone cannot be turned into, where form is what an Accept header has led to.
func (o Offer) Fits(form Form, accept string, res *registry.Resource, list bool) error {
	if form.As == Table {
		switch form.Include {
		case "", metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
			return nil
		}
		return apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: includeObject: Invalid value: %q: "+
			"must be 'Metadata', 'Object', 'None', or empty", form.Include))
	}
	if form.As != PartialMetadata {
		return nil
	}
	for _, c := range parseAccept(accept) {
		if _, ok := c.form(Form{}, o); !ok {
			continue
		}
		asked := c.params["as"]
		switch asksList := asked == "PartialObjectMetadataList"; {
		case asksList == list:
			return nil
		case list:
			return notAcceptable(fmt.Sprintf("you requested %s, but the requested object is a list (%s)", asked, goType(res, res.ListKind)))
		default:
			return notAcceptable(fmt.Sprintf("you requested %s, but the requested object is not a list (%s)", asked, goType(res, res.GVK.Kind)))
		}
	}
	return nil
}

// goType is how Kubernetes prints the type of an object.
func goType(res *registry.Resource, kind string) string {
	switch {
	case res.Kind.Custom == nil:
		return "*" + internalPackage(res.GVK.Group) + "." + kind
	case kind == res.ListKind:
		return "*unstructured.UnstructuredList"
	}
	return "*unstructured.Unstructured"
}

// NegotiateWhole is Negotiate for what has neither a table nor metadata of its own, such as a review: an answer as one of
// these is not offered.
func (o Offer) NegotiateWhole(accept, pretty string) (Form, error) {
	form, err := o.Negotiate(accept, pretty, "")
	if err != nil || form.As == Whole {
		return form, err
	}
	plain := Form{Pretty: form.Pretty}
	for _, c := range parseAccept(accept) {
		if f, ok := c.form(plain, o); ok && f.As == Whole {
			return f, nil
		}
	}
	return plain, o.NotAcceptable()
}

// NotAcceptable is the 406 that lists what is offered.
func (o Offer) NotAcceptable() error { return NotAcceptable(o.accepted()) }

// NotAcceptable is the 406 that lists the media types that are offered.
func NotAcceptable(offered string) error {
	return notAcceptable("only the following media types are accepted: " + offered)
}

func notAcceptable(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: message,
	}}
}

// UnsupportedMedia is the 415 of a body in an encoding that is not offered.
func UnsupportedMedia(offered string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + offered,
	}}
}

// parseAccept returns the clauses, most wanted first.
func parseAccept(accept string) []clause {
	var clauses []clause
	for i, part := range strings.Split(accept, ",") {
		if i == 64 { // nobody means more
			break
		}
		media, params, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		c := clause{media: media, params: params, q: 1, order: i}
		if text, ok := params["q"]; ok {
			c.q, _ = strconv.ParseFloat(text, 64) // what is no number is wanted least, as in Kubernetes
		}
		clauses = append(clauses, c)
	}
	sort.SliceStable(clauses, func(i, j int) bool { return clauses[i].q > clauses[j].q })
	return clauses
}

// Wish is one of the media types that an Accept header names.
type Wish struct {
	Media  string
	Params map[string]string
}

// Wishes are what an Accept header names, from the most wanted on.
func Wishes(accept string) []Wish {
	var all []Wish
	for _, c := range parseAccept(accept) {
		all = append(all, Wish{c.media, c.params})
	}
	return all
}

func (c clause) form(form Form, offer Offer) (Form, bool) {
	switch c.media {
	case "application/json", "*/*", "application/*":
		form.Media = JSON
	case "application/yaml":
		form.Media = YAML
	case "application/vnd.kubernetes.protobuf":
		form.Media = Protobuf
	case "application/cbor":
		if !offer.CBOR {
			return form, false
		}
		form.Media = CBOR
	default:
		return form, false
	}
	if p := c.params["pretty"]; p == "1" || p == "true" {
		form.Pretty = true
	}
	if form.Media == Protobuf || form.Media == CBOR { // nothing for people to read
		form.Pretty = false
	}
	as := c.params["as"]
	if as == "" { // a version of no form is one that is not offered
		return form, c.params["g"] == "" && c.params["v"] == ""
	}
	if group := c.params["g"]; group != metav1.GroupName {
		return form, false
	}
	switch c.params["v"] {
	case "v1":
	case "v1beta1":
		form.Beta = true
	default:
		return form, false
	}
	switch as {
	case "Table":
		form.As = Table
		return form, form.Media != Protobuf // the Table has no protobuf form
	case "PartialObjectMetadata", "PartialObjectMetadataList":
		form.As = PartialMetadata
		return form, true
	}
	return form, false
}
