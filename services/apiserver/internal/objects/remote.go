package objects

import (
	"context"
	"net/url"
	"strings"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/relay"
)

// Aggregator reaches extension API servers.
type Aggregator interface {
	// Remote returns the APIService of a group version that is not served here, or nil.
	Remote(group, version string) *apiregistrationv1.APIService
	// Serve passes a request on to its server.
	Serve(ctx context.Context, caller relay.Caller, open *apiv1.ConnectOpen, s *apiregistrationv1.APIService, user *authn.User) error
}

// remote serves a request to a group version that an extension API server serves. Whoever may not make it here does not reach
// that server.
func (s *Server) remote(caller relay.Caller, open *apiv1.ConnectOpen, service *apiregistrationv1.APIService) (err error) {
	ctx := caller.Context()
	r := &request{verb: "connect", namespace: open.GetNamespace(), name: open.GetName(), subresource: open.GetSubresource(), start: time.Now(), long: true}
	s.enter(r)
	defer func() { s.end(ctx, r, &err, recover()) }()
	if r.user, err = s.authenticate(ctx); err != nil {
		return err
	}
	ctx = authn.WithUser(ctx, r.user)
	if err := s.authorize(ctx, remoteAttributes(r.user, open)); err != nil {
		return err
	}
	return s.Aggregator.Serve(ctx, caller, open, service, r.user)
}

// remoteAttributes are what a request is authorized by: as one for a resource, where it names one, or for its path.
func remoteAttributes(user *authn.User, open *apiv1.ConnectOpen) *authz.Attributes {
	if open.GetResource() == "" {
		path, err := url.PathUnescape(open.GetPath())
		if err != nil {
			path = open.GetPath()
		}
		return &authz.Attributes{User: user, Verb: strings.ToLower(open.GetMethod()), Path: path}
	}
	verb, selector := relay.Verb(open)
	return &authz.Attributes{
		User: user, Verb: verb, Group: open.GetGroup(), Version: open.GetVersion(), Resource: open.GetResource(), Subresource: open.GetSubresource(),
		Namespace: open.GetNamespace(), Name: nameAsked(verb, open.GetName(), selector), FieldSelector: selector,
	}
}
