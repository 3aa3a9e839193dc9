package front

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/flow"
	"howdah.dev/services/apiserver/internal/relay"
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
}

// resource is what messages about resources have.
type resource interface {
	GetGroup() string
	GetVersion() string
	GetResource() string
	GetNamespace() string
}

const (
	// perSeat is how many writes of a batch one seat is reckoned to be worth, and batchWidth the most seats that one takes.
	perSeat    = 100
	batchWidth = 10
	// bytesPerSeat is how many bytes of stored objects a seat is worth, and cachedBytes the most that a list from the cache holds at a
	// time, which are Kubernetes' own measures.
	bytesPerSeat = 100_000
	cachedBytes  = 1_000_000
)

// Count tells how many objects there are of a resource, and how many bytes they are stored as.
type Count func(group, version, resource string) (objects, bytes int)

// read tells what a message asks for. Those that it does not know are let through as a path of their own.
func read(message any, count Count) request {
	var r request
	switch m := message.(type) {
	case *apiv1.DocumentRequest:
		r.Verb, r.Path, r.document = "get", m.GetPath(), true
		return r
	case *apiv1.BatchRequest:
		r.Verb, r.Path, r.Width = "post", "/howdah/v1/batch", min((len(m.GetItems())+perSeat-1)/perSeat, batchWidth)
		return r
	case *apiv1.ConnectRequest:
		open := m.GetOpen()
		if open.GetResource() == "" {
			r.Verb, r.Path, r.long = strings.ToLower(open.GetMethod()), open.GetPath(), true
			return r
		}
		r.of(open, open.GetName(), open.GetSubresource())
		r.long = true
		var selector string
		r.Verb, selector = relay.Verb(open)
		r.narrowBy(selector)
		return r
	case *apiv1.GetRequest:
		r.Verb = "get"
	case *apiv1.ListRequest:
		r.Verb = "list"
	case *apiv1.WatchRequest:
		r.Verb = "watch"
		r.Uncounted = m.GetFeed()
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
	r.narrow(message)
	r.Width = r.width(message, count)
	return r
}

// streamed are the subresources that are byte streams, and are not classified by any method.
var streamed = []string{"attach", "exec", "log", "portforward", "proxy"}

// asked tells what an access asks for.
func asked(a *apiv1.Access) request {
	var r request
	r.Verb, r.Path = a.GetVerb(), a.GetPath()
	if r.Path == "" {
		r.of(a, a.GetName(), a.GetSubresource())
	}
	r.long = strings.HasPrefix(r.Path, "/debug/pprof/") || slices.Contains(streamed, r.Subresource)
	return r
}

// narrow reads out of a field selector whether one object is asked for, or the pods of a node.
func (r *request) narrow(message any) {
	if m, ok := message.(interface{ GetFieldSelector() string }); ok {
		r.narrowBy(m.GetFieldSelector())
	}
}

func (r *request) narrowBy(fieldSelector string) {
	if fieldSelector == "" || r.Verb == "deletecollection" {
		return
	}
	selector, err := fields.ParseSelector(fieldSelector)
	if err != nil {
		return // it is refused
	}
	if name, one := selector.RequiresExactMatch("metadata.name"); one && r.Name == "" {
		r.Name = name
	}
	if node, one := selector.RequiresExactMatch("spec.nodeName"); one && node != "" && r.plain == "pods" {
		r.Uncounted = true
	}
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

// width estimates the seats: a list costs by what it has in memory at a time.
func (r *request) width(message any, count Count) int {
	var limit int
	stored, selects := false, false
	switch m := message.(type) {
	case *apiv1.ListRequest:
		limit, stored = int(m.GetLimit()), past(m)
		selects = m.GetLabelSelector() != "" || m.GetFieldSelector() != ""
	case *apiv1.WatchRequest:
		begins := m.GetSendInitialEvents() == "true" || m.GetSendInitialEvents() == "1"
		if !begins && m.GetResourceVersion() != "" && m.GetResourceVersion() != "0" {
			return 1
		}
	default:
		return 1
	}
	n, bytes := count(r.Group, r.Version, r.plain)
	if n == 0 {
		return 1
	}
	loaded := n
	if limit > 0 {
		loaded = min(n, limit)
	}
	switch {
	case r.Name != "":
		loaded = 1
	case stored && selects:
		loaded = max(loaded, n/2)
	}
	if bytes = bytes / n * loaded; !stored {
		bytes = min(bytes, cachedBytes)
	}
	return max((bytes+bytesPerSeat-1)/bytesPerSeat, 1)
}

// past reports whether a list is of a state that Kubernetes does not answer from its cache: an exact revision, or what follows a page.
func past(m *apiv1.ListRequest) bool {
	switch m.GetResourceVersionMatch() {
	case "Exact":
		return true
	case "":
		return m.GetContinue() != "" || m.GetLimit() > 0 && m.GetResourceVersion() != "" && m.GetResourceVersion() != "0"
	}
	return false
}
