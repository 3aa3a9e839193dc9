package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/history"
	"howdah.dev/services/apiserver/internal/store"
)

const (
	historyLimit    = 50
	maxHistoryLimit = 500
	// maxHistoryBytes ends a page of versions early.
	maxHistoryBytes = 2 << 20
)

// History serves apiv1.HistoryService beside the objects.
type History struct {
	apiv1.UnimplementedHistoryServiceServer
	s     *Server
	store store.Historian
}

var _ apiv1.HistoryServiceServer = (*History)(nil)

// NewHistory returns the history of what a server serves.
func NewHistory(s *Server, h store.Historian) *History { return &History{s: s, store: h} }

// History implements apiv1.HistoryServiceServer.
func (h *History) History(ctx context.Context, req *apiv1.HistoryRequest) (resp *apiv1.HistoryResponse, err error) {
	ctx, r, err := h.s.begin(ctx, "get", req, req.GetName(), "", "")
	defer func() { h.s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return nil, err
	}
	q, err := h.query(ctx, r, req)
	if err != nil {
		return nil, err
	}
	versions, err := h.store.History(ctx, q)
	if err != nil {
		return nil, storeError(err, r.res.GroupResource(), r.name, "get")
	}
	moment := req.GetRevision() > 0 || req.GetAt() != ""
	if err := within(q, moment, versions); err != nil {
		return nil, err
	}
	if len(versions.Changes) == 0 && versions.Base == nil && (moment || q.Before == 0 && q.Since.IsZero()) {
		return nil, apierrors.NewNotFound(r.res.GroupResource(), r.name)
	}
	resp = &apiv1.HistoryResponse{More: versions.More && !moment, Revision: versions.Revision, OldestRevision: versions.Compacted}
	if !versions.Oldest.IsZero() {
		resp.OldestTime = timestamppb.New(versions.Oldest)
	}
	if err := h.fill(ctx, r, req, q, versions, resp); err != nil {
		return nil, err
	}
	if moment && len(resp.Versions) == 0 {
		return nil, apierrors.NewNotFound(r.res.GroupResource(), r.name)
	}
	r.header(ctx)
	return resp, nil
}

// query reads the options of a request.
func (h *History) query(ctx context.Context, r *request, req *apiv1.HistoryRequest) (store.HistoryQuery, error) {
	q := store.HistoryQuery{Key: r.res.Kind.Key(r.namespace, r.name), Before: req.GetBefore(), Limit: int(req.GetLimit())}
	var err error
	switch {
	case req.GetRevision() < 0 || req.GetBefore() < 0 || req.GetLimit() < 0:
		return q, apierrors.NewBadRequest("revision, before and limit must not be negative")
	case q.Limit > maxHistoryLimit:
		return q, apierrors.NewBadRequest(fmt.Sprintf("limit is at most %d", maxHistoryLimit))
	case q.Limit == 0:
		q.Limit = historyLimit
	}
	if q.Since, err = history.Since(req.GetSince(), h.s.Clock.Now()); err != nil {
		return q, err
	}
	if req.GetRevision() == 0 && req.GetAt() == "" {
		return q, nil
	}
	if q.Before > 0 || !q.Since.IsZero() {
		return q, apierrors.NewBadRequest("revision and at select one version: before and since do not go with them")
	}
	revision, err := h.moment(ctx, req.GetRevision(), req.GetAt())
	q.Before, q.Limit = revision+1, 1
	return q, err
}

// moment returns the revision that a request means.
func (h *History) moment(ctx context.Context, revision int64, at string) (int64, error) {
	switch {
	case revision < 0:
		return 0, apierrors.NewBadRequest("revision must not be negative")
	case revision > 0 && at != "":
		return 0, apierrors.NewBadRequest("revision and at exclude each other")
	case revision > 0:
		return revision, nil
	case at == "":
		return 0, apierrors.NewBadRequest("one of revision and at is needed")
	}
	when, err := history.Moment("at", at)
	if err != nil {
		return 0, err
	}
	revision, err = h.store.RevisionAt(ctx, when)
	switch {
	case errors.Is(err, store.ErrFuture):
		return 0, apierrors.NewBadRequest(fmt.Sprintf("at: %s has not come yet", at))
	case errors.Is(err, store.ErrTooOld):
		return 0, apierrors.NewResourceExpired(fmt.Sprintf("%s is too old: the change log does not reach back so far", at))
	}
	return revision, storeError(err, noResource, "", "get")
}

// within refuses a moment that the log does not cover.
func within(q store.HistoryQuery, moment bool, v store.Versions) error {
	revision := q.Before - 1
	switch {
	case !moment:
		return nil
	case revision > v.Revision:
		return apierrors.NewBadRequest(fmt.Sprintf("revision %d is not reached yet: the newest is %d", revision, v.Revision))
	case revision < v.Compacted:
		return tooOld(revision, v)
	}
	return nil
}

// tooOld is the 410 of a revision from before the log.
func tooOld(revision int64, v store.Versions) error {
	text := fmt.Sprintf("revision %d is too old: states are kept from revision %d on", revision, v.Compacted)
	if !v.Oldest.IsZero() {
		text += ", which is " + v.Oldest.Format(time.RFC3339)
	}
	return apierrors.NewResourceExpired(text)
}

// fill adds the versions to the response.
func (h *History) fill(ctx context.Context, r *request, req *apiv1.HistoryRequest, q store.HistoryQuery, v store.Versions, resp *apiv1.HistoryResponse) error {
	size := 0
	for _, c := range v.Changes {
		one, err := h.version(ctx, r, c, req.GetObjects())
		if err != nil {
			return err
		}
		if size += len(one.Diff) + len(one.ObjectJson); size > maxHistoryBytes && len(resp.Versions) > 0 {
			resp.More = true
			return nil
		}
		resp.Versions = append(resp.Versions, one)
	}
	// What was there before the log begins comes last, where the page reaches so far.
	b := v.Base
	if b == nil || v.More || !q.Since.IsZero() || q.Before > 0 && b.Revision >= q.Before || len(v.Changes) > 0 && req.GetRevision()+int64(len(req.GetAt())) > 0 {
		return nil
	}
	object, uid, err := h.state(ctx, r, b)
	if err != nil {
		return err
	}
	one := &apiv1.ObjectVersion{Revision: b.Revision, Uid: uid}
	if req.GetObjects() {
		one.ObjectJson = string(object)
	}
	resp.Versions = append(resp.Versions, one)
	return nil
}

// version describes one change.
func (h *History) version(ctx context.Context, r *request, c store.Change, objects bool) (*apiv1.ObjectVersion, error) {
	verb, manager, program := history.Origin(c.Origin)
	v := &apiv1.ObjectVersion{
		Revision: c.Revision, Time: timestamppb.New(c.Time), Operation: "UPDATED", Verb: verb, User: c.Actor, FieldManager: manager,
		UserAgent: program, TraceId: history.TraceID(c.Trace), PreviousRevision: c.PreviousRevision,
	}
	before, uid, err := h.state(ctx, r, c.Previous)
	if err != nil {
		return nil, err
	}
	var after []byte
	switch {
	case c.Type == store.Removed:
		v.Operation = "DELETED"
	default:
		if c.Previous == nil {
			v.Operation = "CREATED"
		}
		if after, uid, err = h.state(ctx, r, &store.Entry{Key: c.Key, Value: c.Value, Revision: c.Revision, CreateRevision: c.CreateRevision}); err != nil {
			return nil, err
		}
	}
	v.Uid = uid
	if objects {
		if v.ObjectJson = string(after); after == nil {
			v.ObjectJson = string(before)
		}
	}
	name := r.res.GroupResource().String() + "/" + r.name + "@"
	v.Diff, err = history.Diff(history.Side{Name: name + strconv.FormatInt(c.PreviousRevision, 10), JSON: before},
		history.Side{Name: name + strconv.FormatInt(c.Revision, 10), JSON: after})
	return v, err
}

// state returns the JSON of an entry in the version of the request, and its UID. No entry has neither.
func (h *History) state(ctx context.Context, r *request, e *store.Entry) (object []byte, uid string, err error) {
	if e == nil {
		return nil, "", nil
	}
	kind := r.res.Kind
	item := codec.LoadOne(ctx, kind, codec.NewItem(kind, e.Key, e.Value, e.Revision, e.CreateRevision))
	obj, err := item.Object()
	if err != nil {
		return nil, "", fmt.Errorf("version %d of %s: %w", e.Revision, e.Key, err)
	}
	object, err = item.Encoded(r.res, codec.Form{Media: codec.JSON})
	return object, string(obj.GetUID()), err
}

// ListAt implements apiv1.HistoryServiceServer.
func (h *History) ListAt(req *apiv1.ListAtRequest, stream grpc.ServerStreamingServer[apiv1.ListAtResponse]) (err error) {
	ctx, r, err := h.s.begin(stream.Context(), "list", req, "", "", req.GetFieldSelector())
	defer func() { h.s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return err
	}
	form, err := r.offer.Negotiate(req.GetAccept(), req.GetPretty(), req.GetIncludeObject())
	if err != nil {
		return err
	}
	form = form.ForList()
	o := listOptions{
		namespace: req.GetNamespace(), label: req.GetLabelSelector(), field: req.GetFieldSelector(),
		limit: req.GetLimit(), token: req.GetContinue(),
	}
	if o.token == "" { // which names a revision itself
		revision, err := h.moment(ctx, req.GetRevision(), req.GetAt())
		if err != nil {
			return err
		}
		if err := h.covered(ctx, revision); err != nil {
			return err
		}
		o.resourceVersion, o.match = revisionText(revision), string(metav1.ResourceVersionMatchExact)
	}
	page, err := h.s.list(ctx, r.res, o)
	if err != nil {
		return err
	}
	r.header(ctx)
	response := &apiv1.ListAtResponse{ContentType: form.ContentType()}
	return codec.List(r.res, page.items, page.meta, form, func(piece []byte) error {
		response.Object = slices.Clone(piece) // within a process its bytes are shared
		err := stream.Send(response)
		response.ContentType = ""
		return err
	})
}

// covered refuses a revision that the log does not cover, with what it does cover.
func (h *History) covered(ctx context.Context, revision int64) error {
	v, err := h.store.History(ctx, store.HistoryQuery{Key: strings.Repeat("/", 3)}) // no object's: only the limits are asked for
	if err != nil {
		return storeError(err, noResource, "", "list")
	}
	return within(store.HistoryQuery{Before: revision + 1}, true, v)
}
