package openapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"
)

// model names the model of a body or an answer; "string" and the like are what they say.
type model string

// OpenAPICanonicalTypeName tells kube-openapi's builders the name.
func (m model) OpenAPICanonicalTypeName() string { return string(m) }

const text model = "string"

// route is one operation, in the form that kube-openapi's builders take.
type route struct {
	method, path, id, tag, description string
	consumes, produces                 []string
	// action and about, the kind that it is about, are there for operations on resources.
	action     string
	about      schema.GroupVersionKind
	parameters []parameter
	// body is the model of what is sent, answer that of what comes back with each of the codes.
	body, answer model
	optionalBody bool
	codes        []int
}

var _ common.Route = route{}

func (r route) Method() string             { return r.method }
func (r route) Path() string               { return r.path }
func (r route) OperationName() string      { return r.id }
func (r route) Description() string        { return r.description }
func (r route) Consumes() []string         { return r.consumes }
func (r route) Produces() []string         { return r.produces }
func (r route) ResponsePayloadSample() any { return nil }

func (r route) Metadata() map[string]any {
	if r.action == "" {
		return nil
	}
	return map[string]any{
		"x-kubernetes-action": r.action,
		gvkExtension:          metav1.GroupVersionKind{Group: r.about.Group, Version: r.about.Version, Kind: r.about.Kind},
	}
}

func (r route) RequestPayloadSample() any {
	if r.body == "" {
		return nil
	}
	return r.body
}

func (r route) Parameters() []common.Parameter {
	out := make([]common.Parameter, 0, len(r.parameters)+1)
	for _, p := range r.parameters {
		out = append(out, p)
	}
	if r.body != "" {
		out = append(out, parameter{name: "body", kind: common.BodyParameterKind, required: !r.optionalBody})
	}
	return out
}

func (r route) StatusCodeResponses() []common.StatusCodeResponse {
	codes := r.codes
	if codes == nil {
		codes = []int{200}
	}
	var out []common.StatusCodeResponse
	for _, code := range codes {
		out = append(out, response{code, r.answer})
	}
	return out
}

type response struct {
	code   int
	answer model
}

func (r response) Code() int  { return r.code }
func (r response) Model() any { return r.answer }

func (r response) Message() string {
	return map[int]string{200: "OK", 201: "Created", 202: "Accepted"}[r.code]
}

// routes are all that a document is about.
type routes []route

func (routes) RootPath() string                   { return "/" }
func (routes) PathParameters() []common.Parameter { return nil }

func (r routes) Routes() []common.Route {
	out := make([]common.Route, 0, len(r))
	for _, one := range r {
		out = append(out, one)
	}
	return out
}
