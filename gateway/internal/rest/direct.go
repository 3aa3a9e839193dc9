package rest

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/request"
)

// direct answers the verbs that are nearly all of the traffic with a call of its own, and reports whether the verb is
// one of them. The generated handlers do the same (a test compares the two), but match patterns, fill messages by
// reflection and nest so deep that every request's stack has to grow: a third of what a get costs.
func (h *Handler) direct(ctx context.Context, out *writer, x *exchange, form url.Values, body []byte) bool {
	ctx = metadata.NewOutgoingContext(ctx, x.metadata)
	switch x.info.Verb {
	case request.Get, request.Create, request.Update, request.Patch, request.Delete:
		var header metadata.MD
		answer, err := h.call(ctx, x.info, form, body, grpc.Header(&header))
		addWarnings(out.Header(), header)
		if err != nil {
			x.err = err
			return true
		}
		out.answer(answer)
	case request.List:
		x.err = h.list(ctx, out, x.info, form)
	case request.Watch:
		x.err = h.watch(ctx, out, x, form)
	default:
		return false
	}
	return true
}

// call makes a unary call.
func (h *Handler) call(ctx context.Context, i request.Info, form url.Values, body []byte, header grpc.CallOption) (object, error) {
	get := form.Get
	switch i.Verb {
	case request.Get:
		return h.client.Get(ctx, &apiv1.GetRequest{
			Group: i.Group, Version: i.Version, Resource: i.Resource, Namespace: i.Namespace, Name: i.Name, Subresource: i.Subresource,
			ResourceVersion: get("resourceVersion"), Accept: get("accept"), Pretty: get("pretty"), IncludeObject: get("includeObject"),
		}, header)
	case request.Create:
		return h.client.Create(ctx, &apiv1.CreateRequest{
			Group: i.Group, Version: i.Version, Resource: i.Resource, Namespace: i.Namespace, Name: i.Name, Subresource: i.Subresource,
			Object: body, ContentType: get("contentType"), DryRun: form["dryRun"], FieldManager: get("fieldManager"),
			FieldValidation: get("fieldValidation"), Accept: get("accept"), Pretty: get("pretty"), IncludeUninitialized: get("includeUninitialized") == "true",
		}, header)
	case request.Update:
		return h.client.Update(ctx, &apiv1.UpdateRequest{
			Group: i.Group, Version: i.Version, Resource: i.Resource, Namespace: i.Namespace, Name: i.Name, Subresource: i.Subresource,
			Object: body, ContentType: get("contentType"), DryRun: form["dryRun"], FieldManager: get("fieldManager"),
			FieldValidation: get("fieldValidation"), Accept: get("accept"), Pretty: get("pretty"),
		}, header)
	case request.Patch:
		return h.client.Patch(ctx, &apiv1.PatchRequest{
			Group: i.Group, Version: i.Version, Resource: i.Resource, Namespace: i.Namespace, Name: i.Name, Subresource: i.Subresource,
			Object: body, ContentType: get("contentType"), DryRun: form["dryRun"], FieldManager: get("fieldManager"),
			FieldValidation: get("fieldValidation"), Force: get("force"), Accept: get("accept"), Pretty: get("pretty"),
		}, header)
	}
	return h.client.Delete(ctx, &apiv1.DeleteRequest{
		Group: i.Group, Version: i.Version, Resource: i.Resource, Namespace: i.Namespace, Name: i.Name,
		Options: body, ContentType: get("contentType"), DryRun: form["dryRun"], GracePeriodSeconds: get("gracePeriodSeconds"),
		PropagationPolicy: get("propagationPolicy"), OrphanDependents: get("orphanDependents"), Accept: get("accept"), Pretty: get("pretty"),
	}, header)
}

// answer sends an object, with the code that the message carries.
func (w *writer) answer(o object) {
	code := http.StatusOK
	if coded, ok := o.(interface{ GetCode() int32 }); ok {
		code = int(max(coded.GetCode(), http.StatusOK))
	}
	header := w.Header()
	header["Content-Type"] = []string{o.GetContentType()}
	header["Content-Length"] = []string{strconv.Itoa(len(o.GetObject()))}
	w.WriteHeader(code)
	_, _ = w.Write(o.GetObject())
}

// limit is how many objects a page may have; 0 is all of them. Lists of any state come from Kubernetes' caches, which are not paged; of events it
// keeps none.
func limit(i request.Info, form url.Values) int64 {
	if form.Get("resourceVersion") == "0" && i.Resource != "events" {
		return 0
	}
	return integer(form, "limit")
}

func (h *Handler) list(ctx context.Context, out *writer, i request.Info, form url.Values) error {
	get := form.Get
	encoding := ""
	if out.gzip {
		encoding = "gzip"
	}
	stream, err := h.client.List(ctx, &apiv1.ListRequest{
		Group: i.Group, Version: i.Version, Resource: i.Resource, Namespace: i.Namespace,
		LabelSelector: get("labelSelector"), FieldSelector: get("fieldSelector"), ResourceVersion: get("resourceVersion"),
		ResourceVersionMatch: get("resourceVersionMatch"), Limit: limit(i, form), Continue: get("continue"),
		TimeoutSeconds: integer(form, "timeoutSeconds"), Accept: get("accept"), Pretty: get("pretty"), IncludeObject: get("includeObject"),
		AcceptEncoding: encoding, IncludeUninitialized: get("includeUninitialized") == "true",
	})
	if err != nil {
		return err
	}
	for begun := false; ; {
		piece, err := stream.Recv()
		if !begun {
			begun = true
			warnings, _ := stream.Header() // what it fails with, Recv says too
			addWarnings(out.Header(), warnings)
			if err == nil {
				out.Header()["Content-Type"] = []string{piece.GetContentType()}
				out.compressed(piece.GetContentEncoding())
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		_, _ = out.Write(piece.GetObject())
	}
}

// integer reads an option that request.Options has checked.
func integer(form url.Values, name string) int64 {
	n, _ := strconv.ParseInt(form.Get(name), 10, 64)
	return n
}
