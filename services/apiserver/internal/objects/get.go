package objects

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// Get implements apiv1.ObjectServiceServer.
func (s *Server) Get(ctx context.Context, req *apiv1.GetRequest) (resp *apiv1.GetResponse, err error) {
	if m, is := s.made(req); is {
		return s.madeGet(ctx, req, m)
	}
	ctx, r, err := s.begin(ctx, "get", req, req.GetName(), req.GetSubresource(), "")
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return nil, err
	}
	if !r.readable() {
		return nil, r.unserved()
	}
	form, err := r.form(req.GetAccept(), req.GetPretty(), req.GetIncludeObject())
	if err != nil {
		return nil, err
	}
	item, err := s.item(ctx, r, req.GetResourceVersion())
	if err == nil {
		err = r.misfit
	}
	if err != nil {
		return nil, err
	}
	answer, err := s.answer(r, item, form)
	if err != nil {
		return nil, err
	}
	r.header(ctx)
	r.size = len(answer.object)
	return &apiv1.GetResponse{Object: answer.object, ContentType: answer.contentType}, nil
}

// item returns the object of a get: the newest one, or, with a resourceVersion, one that is not older than it.
func (s *Server) item(ctx context.Context, r *request, resourceVersion string) (*codec.Item, error) {
	kind := r.res.Kind
	if err := locate(kind, r.namespace, r.name); err != nil {
		return nil, err
	}
	if err := s.reachToRead(ctx, kind, resourceVersion); err != nil {
		return nil, readError(err, r.res.GroupResource(), r.name)
	}
	item := codec.LoadOne(ctx, kind, s.Cache.For(kind).Get(kind.Key(r.namespace, r.name)))
	if item == nil {
		return nil, apierrors.NewNotFound(r.res.GroupResource(), r.name)
	}
	return item, nil
}

// reach waits until the cache may answer a read of "not older than" a resourceVersion; unset is the newest, "0" any.
func (s *Server) reach(ctx context.Context, kind *registry.Kind, resourceVersion string) (err error) {
	start := time.Now()
	defer func() { s.Cache.For(kind).Waited(time.Since(start), resourceVersion == "", err) }()
	switch resourceVersion {
	case "":
		return s.Cache.Fresh(ctx)
	case "0":
		if kind.Newest {
			return s.Cache.Fresh(ctx)
		}
		return s.Cache.Recent(ctx)
	}
	revision, err := parseRevision(resourceVersion)
	if err != nil {
		return err
	}
	return s.Cache.WaitFor(ctx, revision)
}

// reachToRead is reach for gets and lists: of kinds that are always read as they are now, those do not answer from an older state.
func (s *Server) reachToRead(ctx context.Context, kind *registry.Kind, resourceVersion string) error {
	if kind.Newest {
		return s.newest(ctx, resourceVersion)
	}
	return s.reach(ctx, kind, resourceVersion)
}

// newest waits for the newest state, and fails at once if that is older than a resourceVersion.
func (s *Server) newest(ctx context.Context, resourceVersion string) error {
	revision, err := parseRevision(resourceVersion)
	if err != nil {
		return apierrors.NewBadRequest("invalid resource version: " + err.Error())
	}
	if err := s.Cache.Fresh(ctx); err != nil {
		return err
	}
	current := s.Cache.Applied()
	if revision <= current {
		return nil
	}
	tooLate := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", revision, current), 0)
	tooLate.ErrStatus.Details = tooLarge(0)
	return tooLate
}

// answer is an encoded response.
type answer struct {
	object      []byte
	contentType string
	code        int32
}

// answer encodes an item as the subresource of the request shows it.
func (s *Server) answer(r *request, item *codec.Item, form codec.Form) (answer, error) {
	kind := r.res.Kind
	switch {
	case r.subresource == "":
	case r.subresource == "status" && kind.Status != nil:
	case r.subresource == "scale" && kind.Scale != nil:
		obj, err := item.Object()
		if err != nil {
			return answer{}, err
		}
		if check := kind.Scale.Check; check != nil {
			switch wants, err := check(obj); {
			case err != nil:
				return answer{}, plain(err)
			case !wants:
				return answer{}, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", kind.Scale.Field))
			}
		}
		b, contentType, err := s.scaleAnswer(kind, scaleOf(kind, obj), form)
		return answer{object: b, contentType: contentType, code: 200}, err
	default:
		if _, ok := kind.Writes[r.subresource]; !ok {
			if r.verb == "get" {
				return answer{}, r.unserved()
			}
		}
	}
	b, err := item.Encoded(r.res, form)
	return answer{object: b, contentType: form.ContentType(), code: 200}, err
}

// readable reports whether the request's subresource can be read.
func (r *request) readable() bool {
	kind := r.res.Kind
	switch r.subresource {
	case "":
		return true
	case "status":
		return kind.Status != nil
	case "scale":
		return kind.Scale != nil
	case "finalize":
		return false
	}
	return kind.Writes[r.subresource] != nil
}

// unserved is the refusal of a subresource that the kind has not, or not with this verb.
func (r *request) unserved() error {
	kind := r.res.Kind
	if kind.Custom == nil {
		r.warnings = nil // nothing is reached that they could be about
	}
	known := r.readable() || kind.Writes[r.subresource] != nil || kind.Actions[r.subresource] != nil
	if !known && kind.GVK.Group == "" {
		switch kind.Resource {
		case "pods":
			_, known = knownSubresources[r.subresource]
			known = known && r.subresource != "scale" && r.subresource != "token" && r.subresource != "finalize"
		case "serviceaccounts":
			known = r.subresource == "token"
		}
	}
	switch {
	case known && kind.Custom != nil:
		return apierrors.NewMethodNotSupported(r.res.GroupResource(), r.verb)
	case known:
		return notAllowed()
	case kind.Custom != nil:
		return apierrors.NewNotFound(r.res.GroupResource(), r.name)
	}
	return noSuchResource()
}

func revisionText(revision int64) string { return strconv.FormatInt(revision, 10) }

func serverDetails(retryAfter int32) *metav1.StatusDetails {
	return &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
}

func tooLarge(retryAfter int32) *metav1.StatusDetails {
	return &metav1.StatusDetails{
		RetryAfterSeconds: retryAfter,
		Causes: []metav1.StatusCause{{
			Type:    metav1.CauseTypeResourceVersionTooLarge,
			Message: "Too large resource version",
		}},
	}
}
