package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// TokenRequest is what serviceaccounts/token is posted.
type TokenRequest = authenticationv1.TokenRequest

var (
	evictionGVK = schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}
	// olderEvictionGVK is taken as well, as it was before it had the same fields in v1.
	olderEvictionGVK = schema.GroupVersionKind{Group: "policy", Version: "v1beta1", Kind: "Eviction"}
	tokenGVK         = schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}
)

// action reads a POST to a subresource.
func (s *Server) action(ctx context.Context, r *request, req *apiv1.CreateRequest, form codec.Form, opts options) (operation, error) {
	body := codec.Body{Data: req.GetObject(), ContentType: req.GetContentType(), Validation: opts.validation, Offer: r.offer}
	kind := r.res.Kind
	if a := kind.Actions[r.subresource]; a != nil {
		return s.apply(ctx, r, a, body, form, opts)
	}
	switch {
	case !s.posts(r):
		return nil, r.unserved()
	case r.subresource == "eviction":
		return s.eviction(ctx, r, body, form, opts, req.GetDryRun())
	}
	return s.token(ctx, r, body, form, opts)
}

// posts reports whether the request's subresource takes what is posted to it.
func (s *Server) posts(r *request) bool {
	kind := r.res.Kind
	switch {
	case kind.Actions[r.subresource] != nil:
		return true
	case kind.GVK.Group != "":
		return false
	}
	return r.subresource == "eviction" && kind.Resource == "pods" || r.subresource == "token" && kind.Resource == "serviceaccounts" && s.Tokens != nil
}

// posted is what admission is told of a body that is posted to an object: the object itself is known by its name.
func (s *Server) posted(r *request, body registry.Object, opts options) *admission.Attributes {
	named := r.res.Kind.New()
	named.GetObjectKind().SetGroupVersionKind(r.res.Kind.GVK)
	named.SetNamespace(r.namespace)
	named.SetName(cmp.Or(r.name, body.GetName()))
	return &admission.Attributes{
		Operation: admission.Create, Resource: r.res, Subresource: r.subresource, Namespace: r.namespace, Name: named.GetName(),
		Object: named, Old: named.DeepCopyObject().(registry.Object), Body: body, User: r.user, DryRun: opts.dryRun, Notes: r,
		FieldManager: opts.manager, FieldValidation: opts.level,
	}
}

// refused returns why nothing is posted to an object: admission is asked before, of the object by its name.
func (s *Server) refused(ctx context.Context, r *request, body registry.Object, opts options, reason error) error {
	a := s.posted(r, body, opts)
	if err := s.Admission.Admit(ctx, a); err != nil {
		return err
	}
	if err := s.Admission.Validate(ctx, a); err != nil {
		return err
	}
	return reason
}

// apply is an action that the kind itself applies, as a Binding.
func (s *Server) apply(ctx context.Context, r *request, a *registry.Action, body codec.Body, form codec.Form, opts options) (operation, error) {
	posted := a.New()
	warnings, err := body.Into(posted, a.GVK)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		r.warn(w)
	}
	receivedAs(ctx, posted, a.GVK)
	if err := checkNamespace(r, posted); err != nil {
		return nil, err
	}
	return s.post(ctx, r, a, posted, form, opts)
}

// post asks admission about what was posted, and applies it. r may be a request to a resource of its own that only names the object.
func (s *Server) post(ctx context.Context, r *request, a *registry.Action, posted registry.Object, form codec.Form, opts options) (operation, error) {
	attributes := s.posted(r, posted, opts)
	attributes.Complete = func() error {
		posted.GetObjectKind().SetGroupVersionKind(a.GVK)
		return s.Fields.Posted(a.GVK, r.subresource, a.New(), posted, r.manager(opts.manager))
	}
	if err := s.Admission.Admit(ctx, attributes); err != nil {
		return nil, err
	}
	if r.subresource == "" {
		posted.SetUID("") // as that of whatever is created; the subresource means that of the pod
		var err error
		if r, err = s.meant(ctx, r, posted.GetName()); err != nil {
			return nil, err
		}
	}
	if posted.GetName() != r.name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("name in URL does not match name in %s object", a.GVK.Kind))
	}
	if binding, ok := posted.(*corev1.Binding); ok {
		if err := checkTarget(binding.Target); err != nil {
			return nil, err
		}
	}
	if err := s.Admission.Validate(ctx, attributes); err != nil {
		return nil, err
	}
	if r.name == "" {
		return nil, apierrors.NewBadRequest("Name parameter required.")
	}
	if err := checkSegment(r.name); err != nil { // it may come from the body
		return nil, err
	}
	u := &update{s: s, r: r, form: form, opts: opts, action: true}
	u.change = func(_ context.Context, old registry.Object) (registry.Object, error) {
		obj := old.DeepCopyObject().(registry.Object)
		if err := a.Apply(obj, posted); err != nil {
			return nil, unstored(err, opts.dryRun)
		}
		if uid := posted.GetUID(); uid != "" {
			obj.SetUID(uid)
		}
		obj.SetResourceVersion(posted.GetResourceVersion())
		return obj, nil
	}
	u.respond = func(*codec.Item) (answer, error) {
		form.As = codec.Whole
		b, contentType, err := codec.Any(&metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}, statusGVK, form)
		return answer{b, contentType, http.StatusCreated}, err
	}
	return u, nil
}

// unstored is what the store says of a dry run, whose keys it names without their beginning.
func unstored(err error, dryRun bool) error {
	var status *apierrors.StatusError
	if dryRun && errors.As(err, &status) {
		status.ErrStatus.Message = strings.Replace(status.ErrStatus.Message, "Key: /registry/", "Key: /", 1)
	}
	return err
}

// checkTarget refuses a binding to anything but a node, before the pod is looked at.
func checkTarget(target corev1.ObjectReference) error {
	path := field.NewPath("target")
	var errs field.ErrorList
	if target.Kind != "" && target.Kind != "Node" {
		errs = append(errs, field.NotSupported(path.Child("kind"), target.Kind, []string{"Node", "<empty>"}))
	}
	if target.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if err := errs.ToAggregate(); err != nil {
		return plain(err)
	}
	return nil
}

// eviction deletes the pod, if its disruption budget lets it.
func (s *Server) eviction(ctx context.Context, r *request, body codec.Body, form codec.Form, opts options, dryRun []string) (operation, error) {
	posted := &policyv1.Eviction{}
	warnings, err := body.Into(posted, evictionGVK)
	if err != nil {
		// The older version has the same fields.
		var older error
		posted = &policyv1.Eviction{}
		if warnings, older = body.Into(posted, olderEvictionGVK); older != nil {
			return nil, err
		}
	}
	for _, w := range warnings {
		r.warn(w)
	}
	receivedAs(ctx, posted, evictionGVK)
	if err := checkNamespace(r, posted); err != nil {
		return nil, err
	}
	if err := s.Fields.Posted(evictionGVK, r.subresource, &policyv1.Eviction{}, posted, r.manager(opts.manager)); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	attributes := s.posted(r, posted, opts)
	if err := s.Admission.Admit(ctx, attributes); err != nil {
		return nil, err
	}
	options, err := evictionOptions(r, posted, dryRun)
	if err != nil {
		return nil, err
	}
	if err := s.Admission.Validate(ctx, attributes); err != nil {
		return nil, err
	}
	return &evict{deletion{s: s, r: r, form: form, options: options, dryRun: len(options.DryRun) > 0, unchecked: true, eviction: true}}, nil
}

// evictionOptions are those of the pod's deletion; dryRun is what the query says of it.
func evictionOptions(r *request, posted *policyv1.Eviction, dryRun []string) (*metav1.DeleteOptions, error) {
	if posted.GetName() != r.name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	options := posted.DeleteOptions.DeepCopy()
	if options == nil {
		options = &metav1.DeleteOptions{}
	}
	if unreadable := options.IgnoreStoreReadErrorWithClusterBreakingPotential; unreadable != nil && *unreadable {
		return nil, apierrors.NewInvalid(evictionGVK.GroupKind(), r.name, field.ErrorList{field.Invalid(
			field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential"), true, "can not be set for pod eviction, try after removing the option")})
	}
	switch {
	case len(dryRun) == 0:
	case len(options.DryRun) == 0:
		options.DryRun = dryRun
	case !slices.Equal(options.DryRun, dryRun):
		return nil, plain(fmt.Errorf("Non-matching dry-run options in request and content: %v and %v", dryRun, options.DryRun))
	}
	return options, nil
}

// evict is a deletion that answers as an eviction.
type evict struct{ deletion }

// before implements staged: the pod says why it goes before it goes, so that those who watch can tell.
func (e *evict) before() operation {
	if e.announced {
		return nil
	}
	return &announcement{&e.deletion}
}

func (e *evict) answer(*codec.Item, *plan) (answer, error) {
	form := e.form
	form.As = codec.Whole
	b, contentType, err := codec.Any(&metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}, statusGVK, form)
	return answer{b, contentType, http.StatusCreated}, err
}

// token issues a token; nothing is stored.
func (s *Server) token(ctx context.Context, r *request, body codec.Body, form codec.Form, opts options) (operation, error) {
	posted := &TokenRequest{}
	warnings, err := body.Into(posted, tokenGVK)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		r.warn(w)
	}
	if posted.Namespace != "" && posted.Namespace != r.namespace {
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if posted.Name != "" && posted.Name != r.name {
		problem := field.Invalid(field.NewPath("metadata", "name"), posted.Name, "must match the service account name if specified")
		return nil, s.refused(ctx, r, posted, opts, apierrors.NewInvalid(tokenGVK.GroupKind(), r.name, field.ErrorList{problem}))
	}
	if posted.Spec.ExpirationSeconds == nil {
		posted.Spec.ExpirationSeconds = new(int64(defaultTokenSeconds))
	}
	receivedAs(ctx, posted, tokenGVK)
	posted.Namespace = r.namespace
	if err := s.Fields.Posted(tokenGVK, r.subresource, &TokenRequest{}, posted, r.manager(opts.manager)); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return &issue{s: s, r: r, form: form, request: posted, opts: opts}, nil
}

// defaultTokenSeconds is how long a token is good that says nothing of it.
const defaultTokenSeconds = 3600

type issue struct {
	s       *Server
	r       *request
	form    codec.Form
	request *TokenRequest
	opts    options
}

func (i *issue) about() *request { return i.r }

func (i *issue) plan(ctx context.Context) (*plan, error) {
	item, err := find(ctx, i.s.Cache, i.r.res.Kind, i.r.res.GroupResource(), i.r.namespace, i.r.name)
	if apierrors.IsNotFound(err) {
		err = i.s.refused(ctx, i.r, i.request, i.opts, err)
	}
	if err != nil {
		return nil, err
	}
	account, err := item.Object()
	if err != nil {
		return nil, err
	}
	attributes := &admission.Attributes{
		Operation: admission.Create, Resource: i.r.res, Subresource: "token", Namespace: i.r.namespace, Name: i.r.name,
		Old: account, Body: i.request, User: i.r.user, DryRun: i.opts.dryRun, Notes: i.r,
		FieldManager: i.opts.manager, FieldValidation: i.opts.level,
	}
	if err := i.s.Admission.Admit(ctx, attributes); err != nil {
		return nil, err
	}
	if uid := i.request.UID; uid != "" && uid != account.GetUID() {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: tokenGVK.Group, Resource: tokenGVK.Kind}, i.r.name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", uid, account.GetUID()))
	}
	i.s.newMeta(i.request)
	i.request.Name = i.r.name
	i.s.Tokens.Complete(i.request)
	if err := i.s.Admission.Validate(ctx, attributes); err != nil {
		return nil, err
	}
	i.request.UID = account.GetUID()
	warnings, err := i.s.Tokens.Issue(ctx, account, i.request)
	if err != nil {
		return nil, err
	}
	for _, text := range warnings {
		i.r.warn(text)
	}
	return &plan{current: item}, nil
}

func (i *issue) answer(*codec.Item, *plan) (answer, error) {
	i.request.Name, i.request.Namespace = i.r.name, i.r.namespace
	i.request.CreationTimestamp = metav1.Time{Time: i.s.now()}
	b, contentType, err := codec.Single(i.request, tokenGVK, nil, nil, i.form)
	return answer{b, contentType, http.StatusCreated}, err
}
