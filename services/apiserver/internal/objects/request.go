package objects

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/obs"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// target is what a request addresses; every request message has these parts.
type target interface {
	GetGroup() string
	GetVersion() string
	GetResource() string
	GetNamespace() string
}

// request is what is known of a request before its body is looked at.
type request struct {
	verb  string
	user  *authn.User
	agent string
	// managerName is the field manager that the request names; empty: it names none. applies says that it is a server-side apply.
	managerName string
	applies     bool
	res         *registry.Resource
	subresource string
	namespace   string
	name        string
	fence       store.Fence
	start       time.Time
	long        bool // a watch or stream
	generated   bool // the name is made up here
	dryRun      bool
	code        int32  // of the answer, where it is not what the verb has by itself
	size        int    // of the answer to a get or list, in bytes
	outdated    string // why the version that is asked for will go
	warnings    []string
	tolerated   []string // what validation has found that was so before
	// annotations are what admission plugins told for the audit log.
	annotations map[string]string
	offer       codec.Offer
	// spaceless says that the path has an empty part where a namespace is named.
	spaceless bool
	// wrong is what a gateway found wrong with the options.
	wrong error
	// misfit is why what is read cannot be shown in the form that was asked for: that is told once it has been read.
	misfit error
	// unread is why a gateway could not read the body.
	unread error
}

// begin authenticates, authorizes and resolves a request. The caller defers s.end, whatever begin returned.
func (s *Server) begin(ctx context.Context, verb string, t target, name, subresource, fieldSelector string) (context.Context, *request, error) {
	r := &request{verb: verb, namespace: t.GetNamespace(), name: name, subresource: subresource, start: time.Now()}
	r.long = verb == "watch" || verb == "connect"
	if !s.enter(r) {
		return ctx, r, apierrors.NewTooManyRequests(apistatus.TooManyRequests, 1)
	}
	user, err := s.authenticate(ctx)
	if err != nil {
		return ctx, r, err
	}
	r.user = user
	for _, text := range user.Warnings {
		r.warn(text)
	}
	ctx = authn.WithUser(ctx, user)
	return ctx, r, s.resolve(ctx, r, t, fieldSelector)
}

// resolve does for one request, or one item of a batch, what follows authentication.
func (s *Server) resolve(ctx context.Context, r *request, t target, fieldSelector string) error {
	r.offer, r.wrong, r.unread = s.Offer, told(ctx, wrongKey), told(ctx, unreadKey)
	verb := r.verb
	if open, ok := t.(*apiv1.ConnectOpen); ok { // streams are authorized by their HTTP method
		verb = connectVerb(open)
	}
	err := s.authorize(ctx, &authz.Attributes{
		User: r.user, Verb: verb, Group: t.GetGroup(), Version: t.GetVersion(), Resource: t.GetResource(),
		Subresource: r.subresource, Namespace: authz.NamespaceOf(t.GetGroup(), t.GetResource(), r.namespace, r.name), Name: nameAsked(r.verb, r.name, fieldSelector),
		FieldSelector: fieldSelector, LabelSelector: labelSelectorOf(t),
	})
	if err != nil {
		return err
	}
	r.spaceless = r.namespace == "" && len(metadata.ValueFromIncomingContext(ctx, spacelessKey)) > 0
	gvr := schema.GroupVersionResource{Group: t.GetGroup(), Version: t.GetVersion(), Resource: t.GetResource()}
	if s.createdElsewhere(r, gvr) {
		return noSuchResource()
	}
	if v, ok := t.(virtual); ok {
		r.res = v.res
	} else if r.name != "" && s.onlyCreated(gvr) && !s.readable(gvr) {
		return noSuchResource() // nothing is there by name
	} else if r.res, err = s.find(ctx, gvr); err != nil {
		return err
	}
	if err := r.scope(); err != nil {
		return err
	}
	r.agent = userAgent(ctx)
	r.fence, err = fenceOf(ctx)
	if r.outdated = deprecated(r.res); r.outdated != "" {
		r.warn(r.outdated)
		if !r.long { // of a stream it is told at its end, as in Kubernetes: the event of its start has it not
			s.Metrics.outdated(ctx, r)
		}
	}
	return err
}

// deprecated is what is said of a version that will go, or nothing.
func deprecated(res *registry.Resource) string {
	if res.Version != nil {
		return res.Version.Deprecated
	}
	return res.Kind.Deprecated
}

// spacelessKey is the metadata by which a gateway tells that a path has an empty part where a namespace is named, as /api/v1/namespaces//pods.
const spacelessKey = "howdah-spaceless"

// scope refuses a kind where it is not: one of the cluster in a namespace, or one of namespaces outside of any. An empty part leads built-in
// kinds to where they are of a namespace: to lists of all, and to what can be refused only where the object is looked for.
func (r *request) scope() error {
	kind := r.res.Kind
	inNamespace := r.namespace != "" || r.spaceless && kind.Custom == nil
	if kind.Namespaced != inNamespace && (!kind.Namespaced || r.verb != "list" && r.verb != "watch") {
		switch {
		case kind.Custom != nil:
			return pageNotFound()
		case kind.Namespaced && r.name == "" && (r.verb == "create" || r.verb == "deletecollection"):
			return notAllowed() // the path is there, for lists
		}
		return noSuchResource()
	}
	if r.verb == "deletecollection" && kind.GVK.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		return notAllowed()
	}
	return nil
}

// locate refuses what no object can be stored at: no namespace for a kind that is in one, and a name that no path can have.
func locate(kind *registry.Kind, namespace, name string) error {
	if kind.Namespaced && namespace == "" {
		return apierrors.NewBadRequest("Namespace parameter required.")
	}
	return checkSegment(name)
}

// checkSegment refuses a name that no path can have as a part; an empty one is none.
func checkSegment(name string) error {
	if problems := path.IsValidPathSegmentName(name); name != "" && len(problems) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", name, strings.Join(problems, ";")))
	}
	return nil
}

// find returns the resource that a URL names. One that seems absent is looked for in the newest state: another apiserver may
// just have established it.
func (s *Server) find(ctx context.Context, gvr schema.GroupVersionResource) (*registry.Resource, error) {
	if res := s.Table.Find(gvr); res != nil {
		return res, nil
	}
	// The cluster's own parts do not come through a gateway, and work whatever versions are switched off for its clients.
	if peer, ok := rpc.Peer(ctx); ok && !peer.In(authn.GatewayGroup) {
		if res := s.Table.Known(gvr); res != nil && res.Kind.Custom == nil {
			return res, nil
		}
	}
	if s.onlyCreated(gvr) {
		return nil, notAllowed()
	}
	if s.Cache.Fresh(ctx) == nil {
		if res := s.Table.Find(gvr); res != nil {
			return res, nil
		}
	}
	if s.builtIn(gvr.Group) {
		return nil, noSuchResource()
	}
	return nil, pageNotFound()
}

// builtIn reports whether a group is not one of custom kinds alone.
func (s *Server) builtIn(group string) bool {
	return group == "authentication.k8s.io" || group == "authorization.k8s.io" ||
		slices.ContainsFunc(s.Table.Resources(), func(r *registry.Resource) bool { return r.GVR.Group == group && r.Kind.Custom == nil })
}

// form is what the client wants the answer to be.
func (r *request) form(accept, pretty, include string) (codec.Form, error) {
	if err := r.route(accept); err != nil {
		return codec.Form{}, err
	}
	negotiate := r.offer.Negotiate
	if r.verb == "watch" {
		pretty = ""
		negotiate = func(accept, _, include string) (codec.Form, error) { return r.offer.NegotiateStream(accept, include) }
	}
	form, err := negotiate(accept, pretty, include)
	if err == nil {
		err = r.wrong
	}
	if err == nil {
		form, err = form.For(r.res.Kind, accept, pretty, r.offer)
	}
	if err != nil || r.subresource == "scale" {
		return form, err
	}
	if form.As == codec.Whole || r.verb == "watch" && form.As != codec.Table {
		return form.ForList(), err
	}
	if form.As == codec.Table && r.untabled() {
		return r.offer.NegotiateUntabled(accept, pretty)
	}
	misfit := r.offer.Fits(form, r.res, r.verb == "list")
	switch r.verb {
	case "list":
		r.misfit = misfit
		return form.ForList(), nil
	case "get":
		r.misfit = misfit
		return form, nil
	}
	return form, misfit
}

// offered refuses an Accept header that names nothing that is offered of the kind at all, be it for watches or not.
func (r *request) offered(accept string) error {
	if err := r.route(accept); err != nil {
		return err
	}
	form, err := r.offer.Negotiate(accept, "", "")
	if err == nil {
		_, err = form.For(r.res.Kind, accept, "", r.offer)
	}
	if err != nil {
		return err
	}
	return r.wrong
}

// untabled reports whether the request is for a subresource of which there are no tables.
func (r *request) untabled() bool {
	kind := r.res.Kind
	if r.verb == "create" {
		return r.subresource != ""
	}
	if r.verb != "update" && !r.readable() {
		return false // what is not served at all says so first
	}
	if w := kind.Writes[r.subresource]; w != nil {
		return w.Untabled
	}
	return r.subresource == "status" && kind.Status != nil && kind.Status.Untabled
}

// route refuses an Accept header that names nothing that the handlers of built-in kinds offer.
func (r *request) route(accept string) error {
	if r.res.Kind.Custom != nil {
		return nil
	}
	return r.offer.Route(accept, r.verb == "list" || r.verb == "watch")
}

// formOfStatus is form for answers that are mostly a Status, of which there are no tables.
func (r *request) formOfStatus(accept, pretty string) (codec.Form, error) {
	if err := r.route(accept); err != nil {
		return codec.Form{}, err
	}
	form, err := r.offer.Negotiate(accept, pretty, "")
	if err == nil {
		err = r.wrong
	}
	if err != nil {
		return form, err
	}
	return form.For(r.res.Kind, accept, pretty, r.offer)
}

// nameAsked is the name that a request is authorized for: a list or watch that selects one object by its name asks for that one.
func nameAsked(verb, name, fieldSelector string) string {
	if name != "" || verb != "list" && verb != "watch" || !strings.Contains(fieldSelector, "metadata.name") {
		return name
	}
	if selector, err := fields.ParseSelector(fieldSelector); err == nil {
		name, _ = selector.RequiresExactMatch("metadata.name")
	}
	return name
}

// notAllowed is the refusal of a method that does not go with the path.
func notAllowed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 405, Reason: metav1.StatusReasonMethodNotAllowed,
		Message: "the server does not allow this method on the requested resource",
		Details: &metav1.StatusDetails{},
	}}
}

// pageNotFound is the refusal of a path that no API group is behind; the gateway answers it as text.
func pageNotFound() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound, Message: apistatus.PageNotFound,
	}}
}

func noSuchResource() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource",
		Details: &metav1.StatusDetails{},
	}}
}

func (s *Server) enter(r *request) bool {
	ok := true
	switch r.verb {
	case "watch", "connect":
	case "get", "list":
		ok = s.reads.enter()
	default:
		ok = s.writes.enter()
	}
	if !ok {
		r.verb += "!" // end must not give back what was not taken
		return false
	}
	s.Metrics.inflight(r, 1)
	return true
}

// note tells the audit log what is known of a request by now.
func (r *request) note(ctx context.Context) {
	name := r.name
	if r.generated { // as in Kubernetes, the log has the names that requests have
		name = ""
	}
	audit.Note(ctx, name, r.annotations)
}

// end gives back what begin took and counts the request. A panic becomes a 500 that names the trace.
func (s *Server) end(ctx context.Context, r *request, err *error, panicked any) {
	r.note(ctx)
	if r.long && r.outdated != "" {
		s.Metrics.outdated(ctx, r)
	}
	if panicked != nil {
		audit.From(ctx).Panicked()
		s.Metrics.Panics.Inc()
		slog.ErrorContext(ctx, "panic in a handler", "verb", r.verb, "err", fmt.Sprint(panicked), "stack", string(debug.Stack()))
		*err = apierrors.NewInternalError(fmt.Errorf("this request caused apiserver to panic (trace %s)",
			trace.SpanContextFromContext(ctx).TraceID()))
	}
	if verb, refused := strings.CutSuffix(r.verb, "!"); refused {
		r.verb = verb
	} else {
		s.Metrics.inflight(r, -1)
		switch r.verb {
		case "watch", "connect":
		case "get", "list":
			s.reads.leave()
		default:
			s.writes.leave()
		}
	}
	if *err != nil {
		r.header(ctx) // who is refused is warned as well
	}
	code := int32(200)
	if r.verb == "create" {
		code = 201
	}
	if r.code != 0 {
		code = r.code
	}
	if *err != nil {
		status := apistatus.Of(*err)
		code = status.Code
		if panicked != nil || code == http.StatusTooManyRequests && status.Message == apistatus.TooManyRequests ||
			code == http.StatusGatewayTimeout && ctx.Err() != nil {
			s.Metrics.terminated(r, code)
		}
	}
	s.Metrics.observe(r, code)
}

func (s *Server) authenticate(ctx context.Context) (*authn.User, error) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return s.Authenticator.Authenticate(ctx)
	}
	ctx, span := tracer.Start(ctx, "authenticate")
	user, err := s.Authenticator.Authenticate(ctx)
	obs.End(span, err)
	return user, err
}

func (s *Server) authorize(ctx context.Context, a *authz.Attributes) (err error) {
	if trace.SpanFromContext(ctx).IsRecording() {
		var span trace.Span
		ctx, span = tracer.Start(ctx, "authorize")
		defer func() { obs.End(span, err) }()
	}
	decision, reason, err := s.Authorizer.Authorize(ctx, a)
	if decision == authz.Allow {
		return nil
	}
	return authz.Refused(a, audit.URIOf(ctx, a), reason, err)
}

// userAgent is the client's own, which the gateway passes on, without what gRPC adds.
func userAgent(ctx context.Context) string {
	for _, key := range []string{"grpcgateway-user-agent", "howdah-user-agent", "user-agent"} {
		if v := metadata.ValueFromIncomingContext(ctx, key); len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

// manager is the field manager of a write: the one it names, or the first part of the user agent.
func (r *request) manager(named string) string {
	if named != "" {
		r.managerName = named
		return named
	}
	name, _, _ := strings.Cut(r.agent, "/")
	name = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return -1
		}
		return c
	}, name)
	if name == "" {
		return "unknown"
	}
	return name[:min(len(name), 128)]
}

// fenceOf reads "role/epoch".
func fenceOf(ctx context.Context) (store.Fence, error) {
	values := metadata.ValueFromIncomingContext(ctx, "howdah-fence")
	if len(values) == 0 || values[0] == "" {
		return store.Fence{}, nil
	}
	role, text, ok := strings.Cut(values[0], "/")
	epoch, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || role == "" {
		return store.Fence{}, apierrors.NewBadRequest(fmt.Sprintf("howdah-fence %q is not role/epoch", values[0]))
	}
	return store.Fence{Role: role, Epoch: epoch}, nil
}
