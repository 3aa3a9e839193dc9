package front

import (
	"net/http"
	"strings"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/flow"
)

// request is what a message asks for.
type request struct {
	flow.Request
	// plain is the resource without its subresource.
	Subresource, plain string
	// document is one that DiscoveryService answers.
	document bool
	// long is a stream that may last for ever, and holds no seat.
	long bool
	// free is let through whatever comes: it is howdah's own plumbing.
	free bool
}

// resource is what messages about resources have.
type resource interface {
	GetGroup() string
	GetVersion() string
	GetResource() string
	GetNamespace() string
}

// perSeat is how many writes of a batch one seat is reckoned to be worth, and bytesPerSeat how many bytes of stored objects, which is
// Kubernetes' own measure.
const (
	perSeat      = 100
	bytesPerSeat = 100_000
)

// Count tells how many objects there are of a resource, and how many bytes they are stored as.
type Count func(group, version, resource string) (objects, bytes int)

// read tells what a message asks for. Those that it does not know are let through as a path of their own.
func read(message any, count Count) request {
	var r request
	switch m := message.(type) {
	case *apiv1.AuthenticateRequest:
		r.free = true
		return r
	case *apiv1.DocumentRequest:
		r.Verb, r.Path, r.document = "get", m.GetPath(), true
		return r
	case *apiv1.BatchRequest:
		r.Verb, r.Path, r.Width = "post", "/howdah/v1/batch", (len(m.GetItems())+perSeat-1)/perSeat
		return r
	case *apiv1.ConnectRequest:
		open := m.GetOpen()
		if open.GetResource() == "" {
			r.Verb, r.Path, r.long = strings.ToLower(open.GetMethod()), open.GetPath(), true
			return r
		}
		r.of(open, open.GetName(), open.GetSubresource())
		r.long, r.Verb = true, "create"
		if open.GetMethod() == http.MethodGet || open.GetMethod() == "" {
			r.Verb = "get"
		}
		return r
	case *apiv1.GetRequest:
		r.Verb = "get"
	case *apiv1.ListRequest:
		r.Verb = "list"
	case *apiv1.WatchRequest:
		r.Verb = "watch"
	case *apiv1.CreateRequest:
		r.Verb = "create"
	case *apiv1.UpdateRequest:
		r.Verb = "update"
	case *apiv1.PatchRequest:
		r.Verb = "patch"
	case *apiv1.DeleteRequest:
		r.Verb = "delete"
	case *apiv1.DeleteCollectionRequest:
		r.Verb = "deletecollection"
	default:
		r.Verb, r.Path = "post", "/howdah/v1/other"
		return r
	}
	name, subresource := "", ""
	if m, ok := message.(interface{ GetName() string }); ok {
		name = m.GetName()
	}
	if m, ok := message.(interface{ GetSubresource() string }); ok {
		subresource = m.GetSubresource()
	}
	r.of(message.(resource), name, subresource)
	r.Width = width(message, count)
	return r
}

func (r *request) of(m resource, name, subresource string) {
	r.Group, r.Version, r.Resource, r.Namespace = m.GetGroup(), m.GetVersion(), m.GetResource(), m.GetNamespace()
	r.Name, r.Subresource, r.plain = name, subresource, m.GetResource()
	r.Namespace = authz.NamespaceOf(r.Group, r.Resource, r.Namespace, name)
	if subresource != "" {
		r.Resource += "/" + subresource
	}
}

// access is what the message asks for, as authorizers take it.
func (r *request) access(message any) authn.Access {
	a := authn.Access{Verb: r.Verb, Path: r.Path}
	if r.Path != "" {
		return a
	}
	a.Group, a.Version, a.Resource, a.Subresource, a.Namespace, a.Name = r.Group, r.Version, r.plain, r.Subresource, r.Namespace, r.Name
	if m, ok := message.(interface{ GetFieldSelector() string }); ok {
		a.FieldSelector = m.GetFieldSelector()
	}
	if m, ok := message.(interface{ GetLabelSelector() string }); ok {
		a.LabelSelector = m.GetLabelSelector()
	}
	return a
}

// width estimates the seats: a list costs by what it has to look at.
func width(message any, count Count) int {
	var n, bytes int
	var limit int64
	switch m := message.(type) {
	case *apiv1.ListRequest:
		if strings.Contains(m.GetFieldSelector(), "metadata.name=") {
			return 1
		}
		n, bytes = count(m.GetGroup(), m.GetVersion(), m.GetResource())
		limit = m.GetLimit()
	case *apiv1.WatchRequest:
		if m.GetName() != "" || m.GetResourceVersion() != "" && m.GetResourceVersion() != "0" && m.GetSendInitialEvents() == "" {
			return 1
		}
		n, bytes = count(m.GetGroup(), m.GetVersion(), m.GetResource())
	case *apiv1.DeleteCollectionRequest:
		n, bytes = count(m.GetGroup(), m.GetVersion(), m.GetResource())
	}
	if limit > 0 && limit < int64(n) {
		bytes = bytes / n * int(limit)
	}
	return max((bytes+bytesPerSeat-1)/bytesPerSeat, 1)
}
