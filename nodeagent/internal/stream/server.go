// Package stream serves streams into the node's pods to apiservers: logs,
// exec, attach, port forwarding, and HTTP to their ports.
package stream

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/rpc"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/logs"
	podspec "howdah.dev/nodeagent/internal/pod"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
)

// Callers is the organization in the certificates of those who may call.
const Callers = "howdah:apiservers"

const callTimeout = 30 * time.Second

// Channels of the frames.
const (
	stdin, stdout, stderr, outcome, resize = 0, 1, 2, 3, 4
	requestBody, responseBody              = 0, 1
)

var podResource = schema.GroupResource{Resource: "pods"}

// Config of a Server.
type Config struct {
	Runtime runtimeapi.RuntimeServiceClient
	Logs    *logs.Reader
	LogDir  string
	// CheckpointDir is the folder of checkpoints, which is made where it is not there.
	CheckpointDir string
	Clock         clock.Clock
	// Pod returns a pod of this node.
	Pod func(namespace, name string) (*corev1.Pod, bool)
	// Node answers requests to the agent itself; nil refuses them.
	Node http.Handler
	// Opened, where set, counts streams: +1 and -1.
	Opened func(subresource string, change float64)
}

// Server implements howdah.node.v1.NodeService.
type Server struct {
	nodev1.UnimplementedNodeServiceServer
	cfg      Config
	observer *cri.Observer
}

// New returns a Server.
func New(cfg Config) *Server {
	if cfg.Opened == nil {
		cfg.Opened = func(string, float64) {}
	}
	return &Server{cfg: cfg, observer: cri.NewObserver(cfg.Runtime)}
}

// Connect implements NodeService.
func (s *Server) Connect(stream grpc.BidiStreamingServer[nodev1.ConnectRequest, nodev1.ConnectResponse]) error {
	user, ok := rpc.Peer(stream.Context())
	if !ok || !user.In(Callers) {
		return apierrors.NewForbidden(podResource, "", fmt.Errorf("only apiservers may open streams on a node"))
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	if open == nil {
		return apierrors.NewBadRequest("the first message of a stream must be open")
	}
	query, err := url.ParseQuery(open.GetQuery())
	if err != nil {
		return apierrors.NewBadRequest("malformed query: " + err.Error())
	}
	c := &conn{stream: stream}
	s.cfg.Opened(open.GetSubresource(), 1)
	defer s.cfg.Opened(open.GetSubresource(), -1)
	ctx := stream.Context()
	if open.GetResource() == "nodes" && open.GetSubresource() == "tunnel" {
		return s.tunnel(ctx, c, query)
	}
	if open.GetResource() == "nodes" && open.GetSubresource() == "proxy" {
		return s.node(ctx, c, open)
	}
	if open.GetResource() != "pods" {
		return apierrors.NewBadRequest(fmt.Sprintf("a node has no streams of %s", open.GetResource()))
	}
	if open.GetSubresource() == "proxy" {
		return s.proxy(ctx, c, open)
	}
	pod, err := s.pod(open.GetNamespace(), open.GetName())
	if err != nil {
		return err
	}
	switch open.GetSubresource() {
	case "log":
		return s.log(ctx, c, pod, query)
	case "exec":
		return s.exec(ctx, c, pod, query)
	case "attach":
		return s.attach(ctx, c, pod, query)
	case "portforward":
		return s.forward(ctx, c, pod)
	}
	return apierrors.NewBadRequest(fmt.Sprintf("a pod has no stream %q", open.GetSubresource()))
}

func (s *Server) pod(namespace, name string) (*corev1.Pod, error) {
	pod, ok := s.cfg.Pod(namespace, name)
	if !ok {
		return nil, apierrors.NewNotFound(podResource, name)
	}
	return pod, nil
}

// conn is one stream. Frames may be sent by several goroutines.
type conn struct {
	stream grpc.BidiStreamingServer[nodev1.ConnectRequest, nodev1.ConnectResponse]
	mu     sync.Mutex
}

func (c *conn) accept(code int32, headers ...*apiv1.Header) error {
	return c.respond(&nodev1.ConnectResponse{Message: &nodev1.ConnectResponse_Accepted{
		Accepted: &apiv1.ConnectAccepted{Code: code, Headers: headers},
	}})
}

func (c *conn) send(frame *apiv1.ConnectFrame) error {
	return c.respond(&nodev1.ConnectResponse{Message: &nodev1.ConnectResponse_Frame{Frame: frame}})
}

func (c *conn) respond(m *nodev1.ConnectResponse) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream.Send(m)
}

// receive returns the caller's next frame.
func (c *conn) receive() (*apiv1.ConnectFrame, error) {
	for {
		m, err := c.stream.Recv()
		if err != nil {
			return nil, err
		}
		if frame := m.GetFrame(); frame != nil {
			return frame, nil
		}
	}
}

// maxFrame bounds the data of one frame.
const maxFrame = 32 << 10

// channel writes to one channel of a stream.
type channel struct {
	c      *conn
	number uint32
}

// Write implements io.Writer.
func (w channel) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		part := p[sent:min(sent+maxFrame, len(p))]
		if err := w.c.send(&apiv1.ConnectFrame{Channel: w.number, Data: part}); err != nil {
			return sent, err
		}
		sent += len(part)
	}
	return len(p), nil
}

func (w channel) close() error {
	return w.c.send(&apiv1.ConnectFrame{Channel: w.number, Close: true})
}

// containerOf names the container that a request is about: the one it names,
// the one that the pod's annotation makes the default, or the only one.
func containerOf(pod *corev1.Pod, query url.Values) (string, error) {
	name := query.Get("container")
	if name == "" {
		if name = pod.Annotations["kubectl.kubernetes.io/default-container"]; name == "" {
			if len(pod.Spec.Containers) == 1 {
				return pod.Spec.Containers[0].Name, nil
			}
			var names []string
			for i := range pod.Spec.Containers {
				names = append(names, pod.Spec.Containers[i].Name)
			}
			return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %v", pod.Name, names))
		}
	}
	if podspec.Find(pod, name) != nil {
		return name, nil
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
}

// notThere is what a kubelet answers who wants a command run in a container that does not run, notAttached who wants to attach to one.
func notThere(_ *corev1.Pod, container string) string {
	return fmt.Sprintf("container not found (%q)", container)
}

func notAttached(pod *corev1.Pod, container string) string {
	return fmt.Sprintf("container %s not found in pod %s_%s", container, pod.Name, pod.Namespace)
}

// running returns the container's run if it runs; missing says that it does not.
func (s *Server) running(ctx context.Context, pod *corev1.Pod, query url.Values, missing func(pod *corev1.Pod, container string) string) (*cri.Container, error) {
	name, err := containerOf(pod, query)
	if err != nil {
		return nil, err
	}
	run, err := s.latest(ctx, pod, name)
	if err != nil {
		return nil, err
	}
	if run == nil {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
			Message: "unable to upgrade connection: " + missing(pod, name),
		}}
	}
	return run, nil
}
