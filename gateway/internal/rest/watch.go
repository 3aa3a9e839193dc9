package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/request"
)

// watchRequest is what a watch asks the API server for.
func watchRequest(i request.Info, form url.Values) *apiv1.WatchRequest {
	get := form.Get
	return &apiv1.WatchRequest{
		Group: i.Group, Version: i.Version, Resource: i.Resource, Namespace: i.Namespace, Name: i.Name,
		LabelSelector: get("labelSelector"), FieldSelector: get("fieldSelector"), ResourceVersion: get("resourceVersion"),
		ResourceVersionMatch: get("resourceVersionMatch"), TimeoutSeconds: integer(form, "timeoutSeconds"),
		AllowWatchBookmarks: get("allowWatchBookmarks") == "true", SendInitialEvents: get("sendInitialEvents"),
		Accept: get("accept"), IncludeObject: get("includeObject"), IncludeUninitialized: get("includeUninitialized") == "true",
	}
}

// watch passes on what a watch of the API server brings, and what follows from a feed where there is one.
func (h *Handler) watch(ctx context.Context, out *writer, x *exchange, form url.Values) error {
	req := watchRequest(x.info, form)
	follower, leave := h.feeds.Enter(ctx, req)
	defer leave()
	push := func(header metadata.MD, message any) error {
		response, ok := message.(*apiv1.WatchResponse)
		if !ok {
			return fmt.Errorf("%T is no response to a watch", message)
		}
		if x.framer == nil {
			addWarnings(out.Header(), header)
			x.framer = framerFor(response.GetContentType())
			out.Header()["Content-Type"] = []string{x.framer.contentType()}
		}
		if events := response.GetEvents(); len(events) > 1 {
			out.pushed(func(write func([]byte) error) error { return inPieces(x.framer, events, write) })
		} else {
			out.push(h.frames.of(x.framer, events))
		}
		return nil
	}
	own := &ownWatch{client: h.client, request: req}
	var options []grpc.CallOption
	if follower != nil {
		own.join(follower)
	} else {
		options = append(options, rpc.Sink(push))
	}
	stream, err := h.client.Watch(ctx, req, options...)
	if err != nil {
		return err
	}
	for {
		response, err := stream.Recv() // with the sink in use, only how the watch ends
		if x.framer == nil {
			header, _ := stream.Header() // what it fails with, Recv says too
			if err != nil {
				addWarnings(out.Header(), header)
			} else if err = push(header, response); err == nil {
				continue
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if through := response.GetThrough(); through > 0 && follower != nil {
			follower.Join(through)
			return h.follow(ctx, out, own, stream)
		}
		if err := push(nil, response); err != nil {
			return err
		}
	}
}

// follow writes what the feed brings until the client's own watch ends, which only stands from now on, or the feed does.
func (h *Handler) follow(ctx context.Context, out *writer, own *ownWatch, stream watchStream) error {
	ctx, cancel := context.WithCancelCause(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		cancel(own.keep(ctx, stream))
	}()
	defer func() { cancel(nil); <-kept }()
	defer context.AfterFunc(ctx, own.follower.Interrupt)() // one channel to wait on is cheaper than two
	var frames [][]byte
	for {
		<-own.follower.Ready()
		if ctx.Err() != nil {
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return cause
			}
			return nil
		}
		var over bool
		if frames, over = own.follower.Take(frames[:0]); len(frames) > 0 {
			out.push(frames...)
			clear(frames)
		}
		if over {
			return nil
		}
	}
}
