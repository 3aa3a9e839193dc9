package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// dialTimeout bounds the way to a node: the connection and its answer whether the stream stands.
const dialTimeout = 10 * time.Second

// Connect implements apiv1.ObjectServiceServer.
func (s *Server) Connect(stream grpc.BidiStreamingServer[apiv1.ConnectRequest, apiv1.ConnectResponse]) (err error) {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	if open == nil {
		return apierrors.NewBadRequest("the first message of a stream must be open")
	}
	if s.Aggregator != nil {
		if service := s.Aggregator.Remote(open.GetGroup(), open.GetVersion()); service != nil {
			return s.remote(stream, open, service)
		}
	}
	ctx, r, err := s.begin(stream.Context(), "connect", open, open.GetName(), open.GetSubresource(), "")
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return err
	}
	defer s.Metrics.streaming(r)()
	// Who has seen over another server that a pod was bound, or is ready, is not told here that it is not.
	if err := s.Cache.Recent(ctx); err != nil {
		return storeError(err, r.res.GroupResource(), r.name, "connect")
	}
	if err := refuseDryRun(r.subresource, open.GetQuery()); err != nil {
		return err
	}
	if r.subresource == "proxy" {
		return s.proxy(ctx, r, stream, open)
	}
	var form codec.Form
	if r.subresource == "log" {
		if form, err = r.offer.NegotiateLog(acceptOf(open)); err != nil {
			return err
		}
	}
	address, empty, err := s.route(ctx, r, open)
	if err != nil {
		return err
	}
	if err := form.FitsLog(); err != nil {
		return err
	}
	if empty { // the log of a pod that has not run anywhere
		return accept(stream, &apiv1.ConnectAccepted{Code: http.StatusNoContent})
	}
	if open.GetNoUpgrade() {
		return apierrors.NewBadRequest("Upgrade request required")
	}
	return s.pipe(ctx, stream, open, address)
}

// acceptOf is how the client of a stream wants its answer.
func acceptOf(open *apiv1.ConnectOpen) string {
	for _, h := range open.GetHeaders() {
		if h.GetName() == "Accept" {
			return h.GetValue()
		}
	}
	return ""
}

// accept tells the caller that its stream stands.
func accept(stream grpc.BidiStreamingServer[apiv1.ConnectRequest, apiv1.ConnectResponse], accepted *apiv1.ConnectAccepted) error {
	return stream.Send(&apiv1.ConnectResponse{Message: &apiv1.ConnectResponse_Accepted{Accepted: accepted}})
}

// route finds the node agent that a stream goes to and fills in what the node is not to decide. empty says that there is
// nothing to stream.
func (s *Server) route(ctx context.Context, r *request, open *apiv1.ConnectOpen) (address string, empty bool, err error) {
	if r.res.Kind.GVK.Group != "" || r.res.Kind.Resource != "pods" {
		return "", false, apierrors.NewMethodNotSupported(r.res.GroupResource(), open.GetSubresource())
	}
	switch r.subresource {
	case "log":
		err = checkLogOptions(r.name, open.GetQuery(), s.SplitLogs)
	case "exec", "attach":
	case "portforward":
		err = checkPorts(open.GetQuery())
	default:
		err = noSuchResource()
	}
	if err != nil {
		return "", false, err
	}
	item, err := find(ctx, s.Cache, r.res.Kind, r.res.GroupResource(), r.namespace, r.name)
	if err != nil {
		return "", false, s.admitConnect(ctx, r, open, nil, err)
	}
	obj, err := item.Object()
	if err != nil {
		return "", false, err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return "", false, fmt.Errorf("pod %s is a %T", r.name, obj)
	}
	if err := s.admitConnect(ctx, r, open, pod, nil); err != nil {
		return "", false, err
	}
	switch r.subresource {
	case "log", "exec", "attach":
		if open.Query, err = chooseContainer(pod, open.GetQuery()); err != nil {
			return "", false, err
		}
	}
	if pod.Spec.NodeName == "" {
		if r.subresource == "log" {
			return "", true, nil
		}
		return "", false, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	address, err = s.nodeAddress(ctx, pod.Spec.NodeName)
	if apierrors.IsNotFound(err) { // Kubernetes names the node as what was asked for
		err = apierrors.NewNotFound(r.res.GroupResource(), pod.Spec.NodeName)
	}
	return address, false, err
}

// mayEnter refuses who may only read, where a stream runs something in a pod or reaches it: WebSockets are asked for with GET, and are to be worth no
// more than POST. The refusal has nothing but the authorizer's reason, as Kubernetes' has.
func (s *Server) mayEnter(ctx context.Context, r *request, open *apiv1.ConnectOpen) error {
	if r.subresource == "proxy" || connectVerb(open) == "create" {
		return nil
	}
	decision, reason, err := s.Authorizer.Authorize(ctx, r.asCreate())
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case decision != authz.Allow:
		return apierrors.NewForbidden(r.res.GroupResource(), r.name, errors.New(reason))
	}
	return nil
}

// admitConnect asks admission about a stream to target, which may be nil, and then whether the caller may enter. It returns err where nothing is said against it.
func (s *Server) admitConnect(ctx context.Context, r *request, open *apiv1.ConnectOpen, target registry.Object, err error) error {
	if r.subresource == "log" { // it is read, and nothing that admission decides about
		return err
	}
	a := &admission.Attributes{
		Operation: admission.Connect, Resource: r.res, Subresource: r.subresource, Namespace: r.namespace, Name: r.name, Old: target, User: r.user,
		Query: open.GetQuery(), Path: open.GetPath(), Notes: r,
	}
	if refused := s.Admission.Admit(ctx, a); refused != nil {
		return refused
	}
	if refused := s.Admission.Validate(ctx, a); refused != nil {
		return refused
	}
	if refused := s.mayEnter(ctx, r, open); refused != nil {
		return refused
	}
	r.header(ctx)
	return err
}

// chooseContainer checks the container of a query, or fills in a pod's only one.
func chooseContainer(pod *corev1.Pod, query string) (string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", apierrors.NewBadRequest(fmt.Sprintf("query: %v", err))
	}
	names, inits := []string{}, []string{}
	known := map[string]bool{}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
		known[c.Name] = true
	}
	for _, c := range pod.Spec.InitContainers {
		inits = append(inits, c.Name)
		known[c.Name] = true
	}
	for _, c := range pod.Spec.EphemeralContainers {
		known[c.Name] = true
	}
	container := values.Get("container")
	switch {
	case container != "":
		if !known[container] {
			return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", container, pod.Name))
		}
		return query, nil
	case len(names) == 1:
		values.Set("container", names[0])
		return values.Encode(), nil
	case len(names) == 0:
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", pod.Name))
	}
	text := fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, names)
	if len(inits) > 0 {
		text += fmt.Sprintf(" or one of the init containers: %s", inits)
	}
	return "", apierrors.NewBadRequest(text)
}

// nodeAddress is where the node's agent listens.
func (s *Server) nodeAddress(ctx context.Context, name string) (string, error) {
	objects := Objects{Table: s.Table, Cache: s.Cache}
	obj, err := objects.Get(ctx, "", "nodes", "", name)
	if err != nil {
		return "", err
	}
	node, ok := obj.(*corev1.Node)
	if !ok {
		return "", fmt.Errorf("node %s is a %T", name, obj)
	}
	port := object.AgentPort(node)
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && port > 0 {
			return net.JoinHostPort(a.Address, strconv.Itoa(int(port))), nil
		}
	}
	if len(node.Status.Addresses) == 0 {
		return "", noAddress(node)
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("node %s has told no address of its agent", name))
}

// pipe carries frames between the caller and the node's agent until either ends.
func (s *Server) pipe(ctx context.Context, caller grpc.BidiStreamingServer[apiv1.ConnectRequest, apiv1.ConnectResponse], open *apiv1.ConnectOpen, address string) error {
	if s.NodeDialer == nil {
		return apierrors.NewServiceUnavailable("this apiserver has no way to nodes")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(dialTimeout, cancel)
	defer timer.Stop()
	conn, err := s.NodeDialer(ctx, address)
	if err != nil {
		return unreachable(address, err)
	}
	defer func() { _ = conn.Close() }()
	node, err := nodev1.NewNodeServiceClient(conn).Connect(ctx)
	if err == nil {
		err = node.Send(&nodev1.ConnectRequest{Message: &nodev1.ConnectRequest_Open{Open: open}})
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return unreachable(address, err)
	}
	up := make(chan struct{})
	defer func() { cancel(); <-up }()
	go func() {
		defer close(up)
		forward(caller, node)
	}()
	for began := false; ; {
		response, err := node.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if !began && !timer.Stop() {
				return apierrors.NewTimeoutError(fmt.Sprintf("the agent of the node at %s does not answer", address), 0)
			}
			return apistatus.FromGRPC(err)
		}
		if !began {
			began = true
			timer.Stop()
		}
		out := &apiv1.ConnectResponse{}
		if a := response.GetAccepted(); a != nil {
			out.Message = &apiv1.ConnectResponse_Accepted{Accepted: a}
		} else {
			out.Message = &apiv1.ConnectResponse_Frame{Frame: response.GetFrame()}
		}
		if err := caller.Send(out); err != nil {
			return err
		}
	}
}

// forward carries the caller's frames to the node until the caller has sent its last, or the stream is over.
func forward(caller grpc.BidiStreamingServer[apiv1.ConnectRequest, apiv1.ConnectResponse], node grpc.BidiStreamingClient[nodev1.ConnectRequest, nodev1.ConnectResponse]) {
	received := make(chan *apiv1.ConnectFrame)
	go func() { // ends with the caller's stream, which ends with the handler
		defer close(received)
		for {
			request, err := caller.Recv()
			if err != nil {
				return
			}
			select {
			case received <- request.GetFrame():
			case <-node.Context().Done():
				return
			}
		}
	}()
	for {
		select {
		case <-node.Context().Done():
			return
		case frame, ok := <-received:
			if !ok {
				_ = node.CloseSend()
				return
			}
			if frame == nil {
				continue
			}
			if node.Send(&nodev1.ConnectRequest{Message: &nodev1.ConnectRequest_Frame{Frame: frame}}) != nil {
				return
			}
		}
	}
}

// noAddress is the 500 of a node that has told no address.
func noAddress(node *corev1.Node) error {
	return failure(fmt.Sprintf("no preferred addresses found; known addresses: %v", node.Status.Addresses))
}

// unreachable is the 500 of a node whose agent cannot be dialed.
func unreachable(address string, err error) error {
	return failure(fmt.Sprintf("error dialing backend: dial %s: %v", address, err))
}

// failure is a 500 for no reason that has a name.
func failure(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message}}
}
