package initializers

import (
	"bytes"
	"context"
	"net/http"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/flow"
	"howdah.dev/services/apiserver/internal/registry"
)

// patchTries is how often a patch of initializers is made anew where the object moves on under it.
const patchTries = 8

// Server stands in front of the object service where the admission plugin runs: it holds creations until their initializers have done their
// part, and shows and takes metadata.initializers in JSON and YAML. Batches and transactions pass it as they are.
type Server struct {
	apiv1.ObjectServiceServer
	Table *registry.Table
	Cache *cache.Cache
	Offer codec.Offer
}

// Create implements apiv1.ObjectServiceServer. A creation that asks for it is answered at once, with 202; others when the object is initialized.
func (s *Server) Create(ctx context.Context, in *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	if in.GetSubresource() != "" {
		return s.ObjectServiceServer.Create(ctx, in)
	}
	req := proto.CloneOf(in)
	var err error
	if req.Object, req.ContentType, err = taken(in.GetObject(), in.GetContentType()); err != nil {
		return nil, err
	}
	c := &creation{cache: s.Cache}
	defer c.stop()
	resp, err := s.ObjectServiceServer.Create(Attend(ctx, c.begin), req)
	if err != nil || c.watcher == nil {
		return resp, err
	}
	if in.GetIncludeUninitialized() || len(in.GetDryRun()) > 0 {
		resp.Object, resp.Code = shown(resp.GetObject(), resp.GetContentType()), http.StatusAccepted
		return resp, nil
	}
	resp.Object, resp.ContentType, err = s.initialized(ctx, c, in)
	return resp, err
}

// asked is what a write says of its answer.
type asked interface {
	GetAccept() string
	GetPretty() string
	GetDryRun() []string
}

// answered is the answer to an update or a patch, which waits where it has created the object.
func (s *Server) answered(ctx context.Context, c *creation, req asked, body []byte, contentType string) ([]byte, string, error) {
	if c.watcher == nil || len(req.GetDryRun()) > 0 {
		return shown(body, contentType), contentType, nil
	}
	return s.initialized(ctx, c, req)
}

// initialized waits for an object that is being created, and returns it as the client wants it.
func (s *Server) initialized(ctx context.Context, c *creation, req asked) ([]byte, string, error) {
	flow.Release(ctx) // initializers have to be served meanwhile
	item, err := c.wait(ctx)
	if err != nil {
		return nil, "", err
	}
	form, err := s.Offer.Negotiate(req.GetAccept(), req.GetPretty(), "")
	if err == nil {
		form, err = form.For(c.res.Kind, req.GetAccept(), req.GetPretty(), s.Offer)
	}
	if err != nil {
		return nil, "", err
	}
	body, err := codec.LoadOne(ctx, c.res.Kind, item).Encoded(c.res, form)
	return body, form.ContentType(), err
}

// Get implements apiv1.ObjectServiceServer.
func (s *Server) Get(ctx context.Context, req *apiv1.GetRequest) (*apiv1.GetResponse, error) {
	resp, err := s.ObjectServiceServer.Get(ctx, req)
	if err == nil {
		resp.Object = shown(resp.GetObject(), resp.GetContentType())
	}
	return resp, err
}

// Update implements apiv1.ObjectServiceServer. One that creates the object is held as a creation is.
func (s *Server) Update(ctx context.Context, in *apiv1.UpdateRequest) (*apiv1.UpdateResponse, error) {
	req := proto.CloneOf(in)
	var err error
	if req.Object, req.ContentType, err = taken(in.GetObject(), in.GetContentType()); err != nil {
		return nil, err
	}
	c := &creation{cache: s.Cache}
	defer c.stop()
	resp, err := s.ObjectServiceServer.Update(Attend(ctx, c.begin), req)
	if err == nil {
		resp.Object, resp.ContentType, err = s.answered(ctx, c, in, resp.GetObject(), resp.GetContentType())
	}
	return resp, err
}

// Patch implements apiv1.ObjectServiceServer. Server-side apply that creates the object is held as a creation is.
func (s *Server) Patch(ctx context.Context, in *apiv1.PatchRequest) (*apiv1.PatchResponse, error) {
	req := proto.CloneOf(in)
	var err error
	if req.Object, req.ContentType, err = taken(in.GetObject(), in.GetContentType()); err != nil {
		return nil, err
	}
	c := &creation{cache: s.Cache}
	defer c.stop()
	resp, err := s.patch(Attend(ctx, c.begin), req)
	if err == nil {
		resp.Object, resp.ContentType, err = s.answered(ctx, c, in, resp.GetObject(), resp.GetContentType())
	}
	return resp, err
}

// patch has a patch say of the annotation what it says of the field. What it then says holds for one revision of the object.
func (s *Server) patch(ctx context.Context, req *apiv1.PatchRequest) (*apiv1.PatchResponse, error) {
	if !bytes.Contains(req.GetObject(), fieldName) || req.GetSubresource() != "" {
		return s.ObjectServiceServer.Patch(ctx, req)
	}
	for try := 1; ; try++ {
		change, bound, err := s.translate(ctx, req)
		if err != nil {
			return nil, err
		}
		resp, err := s.ObjectServiceServer.Patch(ctx, change)
		if !bound || try == patchTries || !apierrors.IsConflict(err) {
			return resp, err
		}
	}
}

// translate returns the patch for the object's present state, and whether it is for that state only, which the client's is not.
func (s *Server) translate(ctx context.Context, req *apiv1.PatchRequest) (*apiv1.PatchRequest, bool, error) {
	res := s.Table.Find(schema.GroupVersionResource{Group: req.GetGroup(), Version: req.GetVersion(), Resource: req.GetResource()})
	if res == nil || s.Cache.Fresh(ctx) != nil {
		return req, false, nil // who is asked next says what is wrong
	}
	item := codec.LoadOne(ctx, res.Kind, s.Cache.For(res.Kind).Get(res.Kind.Key(req.GetNamespace(), req.GetName())))
	if item == nil {
		return req, false, nil
	}
	obj, err := item.Object()
	if err != nil {
		return nil, false, err
	}
	change, speaks, err := patched(req.GetObject(), req.GetContentType(), obj)
	if err != nil || !speaks {
		return req, false, err
	}
	out := proto.CloneOf(req)
	out.Object = change.body
	return out, change.bound, nil
}

// Delete implements apiv1.ObjectServiceServer.
func (s *Server) Delete(ctx context.Context, req *apiv1.DeleteRequest) (*apiv1.DeleteResponse, error) {
	resp, err := s.ObjectServiceServer.Delete(ctx, req)
	if err == nil {
		resp.Object = shown(resp.GetObject(), resp.GetContentType())
	}
	return resp, err
}

// DeleteCollection implements apiv1.ObjectServiceServer: what waits goes, too.
func (s *Server) DeleteCollection(ctx context.Context, req *apiv1.DeleteCollectionRequest) (*apiv1.DeleteCollectionResponse, error) {
	resp, err := s.ObjectServiceServer.DeleteCollection(ctx, req)
	if err == nil {
		resp.Object = shown(resp.GetObject(), resp.GetContentType())
	}
	return resp, err
}

// List implements apiv1.ObjectServiceServer. A list that shows what waits is put together here, and not compressed.
func (s *Server) List(req *apiv1.ListRequest, stream grpc.ServerStreamingServer[apiv1.ListResponse]) error {
	if !req.GetIncludeUninitialized() {
		return s.ObjectServiceServer.List(req, stream)
	}
	plain := proto.CloneOf(req)
	plain.AcceptEncoding = ""
	whole := &collected{ServerStreamingServer: stream}
	if err := s.ObjectServiceServer.List(plain, whole); err != nil {
		return err
	}
	body := shown(whole.body, whole.contentType)
	first := &apiv1.ListResponse{ContentType: whole.contentType}
	for piece := range slices.Chunk(body, pieceBytes) {
		first.Object = piece
		if err := stream.Send(first); err != nil {
			return err
		}
		first = &apiv1.ListResponse{}
	}
	return nil
}

// pieceBytes is the most that one piece of a list carries.
const pieceBytes = 1 << 20

// collected keeps the pieces of a list.
type collected struct {
	grpc.ServerStreamingServer[apiv1.ListResponse]
	body        []byte
	contentType string
}

// Send implements grpc.ServerStreamingServer.
func (c *collected) Send(piece *apiv1.ListResponse) error {
	if c.contentType == "" {
		c.contentType = piece.GetContentType()
	}
	c.body = append(c.body, piece.GetObject()...)
	return nil
}

// Watch implements apiv1.ObjectServiceServer.
func (s *Server) Watch(req *apiv1.WatchRequest, stream grpc.ServerStreamingServer[apiv1.WatchResponse]) error {
	if req.GetIncludeUninitialized() {
		stream = &showing{ServerStreamingServer: stream}
	}
	return s.ObjectServiceServer.Watch(req, stream)
}

// showing shows the initializers of watched objects.
type showing struct {
	grpc.ServerStreamingServer[apiv1.WatchResponse]
	contentType string
}

// Send implements grpc.ServerStreamingServer.
func (w *showing) Send(response *apiv1.WatchResponse) error {
	if w.contentType == "" {
		w.contentType = response.GetContentType()
	}
	for _, e := range response.GetEvents() {
		e.Object = shown(e.GetObject(), w.contentType)
	}
	return w.ServerStreamingServer.Send(response)
}
