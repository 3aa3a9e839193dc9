package objects

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// List implements apiv1.ObjectServiceServer.
func (s *Server) List(req *apiv1.ListRequest, stream grpc.ServerStreamingServer[apiv1.ListResponse]) (err error) {
	if m, is := s.made(req); is {
		return s.madeList(stream.Context(), req, m, stream.Send)
	}
	ctx, r, err := s.begin(stream.Context(), "list", req, "", "", req.GetFieldSelector())
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return err
	}
	form, err := r.form(req.GetAccept(), req.GetPretty(), req.GetIncludeObject())
	if err != nil {
		return err
	}
	page, err := s.list(ctx, r.res, listOptions{
		namespace: req.GetNamespace(), label: req.GetLabelSelector(), field: req.GetFieldSelector(),
		resourceVersion: req.GetResourceVersion(), match: req.GetResourceVersionMatch(),
		limit: req.GetLimit(), token: req.GetContinue(), initialized: !req.GetIncludeUninitialized(),
	})
	if err == nil {
		err = r.misfit
	}
	if err != nil {
		return err
	}
	r.header(ctx)
	send := func(part *apiv1.ListResponse) error {
		r.size += len(part.GetObject())
		return stream.Send(part)
	}
	sender := newListSender(send, form.ContentType(), req.GetAcceptEncoding())
	defer sender.free()
	if sender.hold {
		if done, err := s.Cache.Segments().GzipList(r.res, page.items, page.meta, form, compressFrom, sender.compressed); done || err != nil {
			return err
		}
	}
	if err := codec.List(r.res, page.items, page.meta, form, sender.piece); err != nil {
		return err
	}
	return sender.finish()
}

type listOptions struct {
	namespace, label, field string
	resourceVersion, match  string
	limit                   int64
	token                   string
	initialized             bool // what waits for initializers is left out
}

type listPage struct {
	items []*codec.Item
	meta  metav1.ListMeta
}

// valid refuses options that do not go together.
func (o *listOptions) valid() error {
	errs := listvalidation.ValidateListOptions(&internalversion.ListOptions{
		ResourceVersion: o.resourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatch(o.match), Continue: o.token,
	}, true)
	if len(errs) > 0 {
		return invalidOptions(o.label, o.field, errs)
	}
	return nil
}

// check refuses options that do not go together, and selectors that cannot be read.
func (o *listOptions) check(res *registry.Resource) error {
	if err := o.valid(); err != nil {
		return err
	}
	_, _, _, err := selectors(res, o.namespace, o.label, o.field)
	return err
}

// list answers a list in all the forms that Kubernetes documents for resourceVersion, resourceVersionMatch, limit and continue.
func (s *Server) list(ctx context.Context, res *registry.Resource, o listOptions) (listPage, error) {
	var page listPage
	if err := o.valid(); err != nil {
		return page, err
	}
	if o.limit < 0 {
		o.limit = 0
	}
	query, _, some, err := selectors(res, o.namespace, o.label, o.field)
	if err != nil {
		return page, err
	}
	if _, err := parseRevision(o.resourceVersion); err != nil && o.token == "" {
		return page, apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	query.Limit = o.limit
	query, selects := converted(res.Kind, query)
	resource := s.Cache.For(res.Kind)
	var result cache.Page
	began := s.Clock.Now().Unix()
	switch {
	case o.token != "":
		var t continueToken
		if t, err = decodeToken(o.token); err != nil {
			return page, apierrors.NewBadRequest("invalid continue token: " + err.Error())
		}
		if o.resourceVersion != "" && o.resourceVersion != "0" {
			return page, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		if t.Began != 0 && t.Revision > 0 {
			began = t.Began
		}
		result, err = s.proceed(ctx, res, query, t)
	case o.match == string(metav1.ResourceVersionMatchExact) || o.match == "" && o.limit > 0 && o.resourceVersion != "" && o.resourceVersion != "0":
		var revision int64
		if revision, err = parseRevision(o.resourceVersion); err != nil {
			return page, err
		}
		if res.Kind.Newest {
			err = s.newest(ctx, o.resourceVersion)
		} else {
			err = s.Cache.WaitFor(ctx, revision)
		}
		if err == nil {
			result, err = resource.At(ctx, query, revision)
		}
	default:
		if err = s.reachToRead(ctx, res.Kind, o.resourceVersion); err == nil {
			result = resource.List(query)
		}
	}
	if err != nil {
		return page, storeError(err, res.GroupResource(), "", "list")
	}
	resource.Listed(result)
	if some {
		page.items = selects(codec.Load(ctx, res.Kind, result.Items))
		if o.initialized && s.Initializers != nil {
			page.items = s.initialized(page.items)
		}
	}
	page.meta.ResourceVersion = revisionText(result.Revision)
	if some && result.Next != "" {
		page.meta.Continue = encodeToken(result.Revision, strings.TrimPrefix(result.Next, res.Kind.Prefix("")), began)
		if result.Remaining > 0 && len(page.items) == len(result.Items) {
			page.meta.RemainingItemCount = &result.Remaining
		}
	}
	return page, nil
}

// continueToken is a place in a list at a revision; revision -1 goes on in the newest state.
type continueToken struct {
	Version  string `json:"v"`
	Revision int64  `json:"rv"`
	Start    string `json:"start"`
	// Began is when the first page was answered, in Unix seconds.
	Began int64 `json:"began,omitempty"`
}

const (
	// tokenVersion is that of the tokens.
	tokenVersion = "meta.k8s.io/v1"
	// tokenAge is how long pages are of one revision, although the log of the store could tell them for longer: clients count on
	// tokens that expire as Kubernetes' do, between 5 and 10 minutes after the first page.
	tokenAge = 5 * time.Minute
)

func encodeToken(revision int64, start string, began int64) string {
	b, err := json.Marshal(continueToken{tokenVersion, revision, start, began})
	if err != nil { // strings and numbers always encode
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeToken(text string) (t continueToken, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if misfit := (*json.UnmarshalTypeError)(nil); errors.As(err, &misfit) && misfit.Field == "" {
		// It would tell the name of a type of ours.
		err = fmt.Errorf("json: cannot unmarshal %s into Go value of type storage.continueToken", misfit.Value)
	}
	if err != nil {
		return t, fmt.Errorf("continue key is not valid: %w", err)
	}
	problem := ""
	switch {
	case t.Version != tokenVersion:
		problem = "server does not recognize this encoded version " + t.Version
	case t.Revision == 0:
		problem = "incorrect encoded start resourceVersion (version " + tokenVersion + ")"
	case t.Start == "":
		problem = "encoded start key empty (version " + tokenVersion + ")"
	case path.Clean("/"+t.Start) != "/"+strings.TrimPrefix(t.Start, "/"):
		problem = t.Start // it leads out of the kind
	}
	if problem != "" {
		return t, errors.New("continue key is not valid: " + problem)
	}
	return t, nil
}

// proceed answers a further page.
func (s *Server) proceed(ctx context.Context, res *registry.Resource, query cache.Query, t continueToken) (cache.Page, error) {
	query.After = res.Kind.Prefix("") + t.Start
	if t.Revision < 0 {
		if err := s.Cache.Fresh(ctx); err != nil {
			return cache.Page{}, err
		}
		return s.Cache.For(res.Kind).List(query), nil
	}
	if t.Began != 0 && s.Clock.Now().Sub(time.Unix(t.Began, 0)) > tokenAge {
		return cache.Page{}, expired(t)
	}
	if err := s.Cache.WaitFor(ctx, t.Revision); err != nil {
		return cache.Page{}, err
	}
	page, err := s.Cache.For(res.Kind).At(ctx, query, t.Revision)
	if errors.Is(err, store.ErrTooOld) {
		return page, expired(t)
	}
	return page, err
}

// expired is the refusal of a token, with one to go on in the newest state.
func expired(t continueToken) error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve the " +
		"remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were " +
		"created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
	err.ErrStatus.ListMeta.Continue = encodeToken(-1, t.Start, 0)
	return err
}
