package request

import (
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// actions are what methods ask of a custom resource, whatever its path is.
var actions = map[string]string{http.MethodPost: Create, http.MethodPut: Update, http.MethodPatch: Patch, http.MethodDelete: Delete}

// OfCustom returns what a method that does not go with the path asks of a custom resource. In Kubernetes these are not served by a route for
// each path and method: HEAD is GET, whose body the server leaves out; what follows a subresource is passed over; a watch by its path is one by any method; what is posted to a name has the name that it says itself; who
// changes a collection is told that a name is wanting; and what is left is refused in words of its own.
func (i Info) OfCustom(method string, u *url.URL) (Info, error) {
	action := actions[method]
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if i.Nameless {
		if action == Update || action == Patch { // which ask for the name
			i.Verb = action
			return i, nil
		}
		return i, apierrors.NewMethodNotSupported(schema.GroupResource{Group: i.Group, Resource: i.Resource}, i.Authorized(method, u))
	}
	switch {
	case i.prefix == Watch && i.Subresource == "":
		i.Verb, i.byPath = Watch, !wantsWatch(u)
		return i, nil
	case i.prefix != "":
		action = i.prefix
	case i.verb(method, wantsWatch(u)) != "":
		i.Verb = i.verb(method, wantsWatch(u))
		return i, nil
	case i.Subresource == "" && action == Create:
		i.Verb, i.Name = action, ""
		return i, nil
	case i.Name == "" && (action == Update || action == Patch):
		i.Verb = action
		return i, nil
	}
	return i, apierrors.NewMethodNotSupported(schema.GroupResource{Group: i.Group, Resource: i.Resource}, action)
}
