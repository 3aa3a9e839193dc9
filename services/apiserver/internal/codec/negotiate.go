package codec

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	// PartialMetadataList is PartialMetadata for lists, and nothing that an object alone can be turned into.
	PartialMetadataList
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
	offered := o.accepted()
	if streams {
		offered += ", " + o.streams()
	}
	return o.route(accept, offered)
}

// route fails where no media type that is named is offered, or is said to be.
func (o Offer) route(accept, offered string) error {
	for part := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(part, ";")
		switch strings.TrimSpace(media) {
		case "*/*", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf":
			return nil
		case "application/cbor":
			if o.CBOR {
				return nil
			}
		case "application/cbor-seq":
			if strings.HasSuffix(offered, "application/cbor-seq") {
				return nil
			}
		case "text/plain":
			if strings.HasPrefix(offered, "text/plain") {
				return nil
			}
		}
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
	form.Pretty = false // an event is a line, whatever is asked for
	if err == nil && form.Media == YAML {
		err = NotAcceptable(o.streams())
	}
	return form, err
}

// Fits refuses what a list cannot be turned into, and tables that show what there is not. What an object cannot be turned into is told when it
// is answered: nothing keeps it from being written.
func (o Offer) Fits(form Form, res *registry.Resource, list bool) error {
	switch {
	case form.As == Table:
		switch form.Include {
		case "", metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
			return nil
		}
		return apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: includeObject: Invalid value: %q: "+
			"must be 'Metadata', 'Object', 'None', or empty", form.Include))
	case form.As == PartialMetadata && list:
		return notOfList(goType(res, res.ListKind))
	}
	return nil
}

// ForList is the form of what a list consists of.
func (f Form) ForList() Form {
	if f.As == PartialMetadataList {
		f.As = PartialMetadata
	}
	return f
}

// errNoList is the refusal of the metadata of a list where there is a custom object, for which Kubernetes has no reason.
var errNoList = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "content is not a list",
}}

func notOfList(goType string) error {
	return notAcceptable(fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (%s)", goType))
}

func notOfObject(goType string) error {
	return notAcceptable(fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (%s)", goType))
}

// goType is how Kubernetes prints the type of an object.
func goType(res *registry.Resource, kind string) string {
	switch {
	case res.Kind.Custom == nil:
		return goTypeOf(res.GVK.GroupVersion().WithKind(kind))
	case kind == res.ListKind:
		return "*unstructured.UnstructuredList"
	}
	return "*unstructured.Unstructured"
}

func goTypeOf(gvk schema.GroupVersionKind) string {
	return "*" + internalPackage(gvk.Group) + "." + gvk.Kind
}

// NegotiateUntabled is Negotiate for what has no table, such as a review: an answer as one is not offered.
func (o Offer) NegotiateUntabled(accept, pretty string) (Form, error) {
	form, err := o.Negotiate(accept, pretty, "")
	if err != nil || form.As != Table {
		return form, err
	}
	plain := Form{Pretty: truth(pretty)}
	for _, c := range parseAccept(accept) {
		if f, ok := c.form(plain, o); ok && f.As != Table {
			return f, nil
		}
	}
	return plain, o.NotAcceptable()
}

// NegotiateLog is Route and Negotiate for the log of a pod, which is text whatever is asked for; but text alone is not offered.
func (o Offer) NegotiateLog(accept string) (Form, error) {
	if accept == "" {
		return Form{}, nil
	}
	if err := o.route(accept, "text/plain, "+o.accepted()); err != nil {
		return Form{}, err
	}
	return o.NegotiateUntabled(accept, "")
}

// FitsLog refuses what a log cannot be turned into.
func (f Form) FitsLog() error {
	switch f.As {
	case PartialMetadata:
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "object does not implement the Object interfaces",
		}}
	case PartialMetadataList:
		return notOfObject("*rest.LocationStreamer")
	}
	return nil
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

// parseAccept returns the clauses, most wanted first. They are read as leniently as Kubernetes reads them, and in its order: what is
// not a parameter says nothing.
func parseAccept(accept string) []clause {
	if parts := strings.SplitN(accept, ",", mostClauses+1); len(parts) > mostClauses {
		accept = strings.Join(parts[:mostClauses], ",")
	}
	var clauses []clause
	for _, a := range goautoneg.ParseAccept(accept) {
		clauses = append(clauses, clause{media: a.Type + "/" + a.SubType, params: a.Params})
	}
	return clauses
}

// mostClauses is how many media types of an Accept header are read; nobody means more.
const mostClauses = 64

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
	if c.params["pretty"] == "1" {
		form.Pretty = true
	}
	if stream := c.params["stream"]; stream != "" && (stream != "watch" || form.Media == YAML) {
		return form, false
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
		return form, form.Media == JSON || form.Media == YAML // Kubernetes has it in no other form
	case "PartialObjectMetadata":
		form.As = PartialMetadata
		return form, true
	case "PartialObjectMetadataList":
		form.As = PartialMetadataList
		return form, true
	}
	return form, false
}
