package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc/metadata"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/gateway/internal/request"
	"howdah.dev/gateway/internal/socket"
	"howdah.dev/kit/apistatus"
)

// watchProtocols are spoken by clients that watch over a WebSocket; most
// offer none. The messages are the same in all of them.
var watchProtocols = []string{"binary.k8s.io", "base64.binary.k8s.io"}

// watchOverWebSocket sends every event as one message: text in JSON, binary
// in CBOR and protobuf, where a message is the WatchEvent without its length. The
// generated handlers know nothing of WebSockets, so this is a call of its own.
func (h *Handler) watchOverWebSocket(w http.ResponseWriter, r *http.Request, info request.Info, md metadata.MD, form url.Values) {
	req := &apiv1.WatchRequest{Group: info.Group, Version: info.Version, Resource: info.Resource, Namespace: info.Namespace, Name: info.Name}
	if err := runtime.PopulateQueryParameters(req, form, utilities.NewDoubleArray(nil)); err != nil {
		answer.Error(w, r, err)
		return
	}
	if err := socket.CheckOffer(r, watchProtocols); err != nil {
		answer.Error(w, r, err)
		return
	}
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(r.Context(), md))
	defer cancel()
	stream, err := h.client.Watch(ctx, req)
	if err != nil {
		answer.Error(w, r, err)
		return
	}
	first, err := stream.Recv()
	if err != nil {
		answer.Error(w, r, err)
		return
	}
	conn, err := socket.Upgrade(w, r, watchProtocols)
	if err != nil {
		return // answered by the upgrader
	}
	ws := socket.New(conn)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel() // the client has gone
		ws.Drain()
	}()
	sendEvents(ws, stream, first)
	ws.Close()
	<-done
}

// sendEvents sends what the stream brings, until either end is gone.
func sendEvents(ws *socket.Socket, stream apiv1.ObjectService_WatchClient, first *apiv1.WatchResponse) {
	f := framerFor(first.GetContentType())
	for response := first; ; {
		for _, e := range response.GetEvents() {
			if sendEvent(ws, f, e.GetType(), e.GetObject()) != nil {
				return
			}
		}
		var err error
		if response, err = stream.Recv(); err != nil {
			if !ended(stream.Context(), err) {
				_ = sendEvent(ws, f, "ERROR", answer.Encode(apistatus.Of(err), f.encoding()))
			}
			return
		}
	}
}

func sendEvent(ws *socket.Socket, f framer, eventType string, object []byte) error {
	switch f.(type) {
	case protobufFramer:
		return ws.WriteWhole(f.appendFrame(nil, eventType, object)[frameLength:])
	case cborFramer:
		return ws.WriteWhole(f.appendFrame(nil, eventType, object))
	}
	return ws.WriteText(f.appendFrame(nil, eventType, object))
}
