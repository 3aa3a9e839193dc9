package stream

import (
	"context"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Join returns where the runtime itself serves a stream into a pod, for callers who speak its protocols: kind is "exec", "attach" or
// "portforward", the query that of the pod's subresource.
func (s *Server) Join(ctx context.Context, kind string, pod *corev1.Pod, query url.Values) (*url.URL, error) {
	var at string
	var err error
	switch kind {
	case "exec":
		at, _, err = s.command(ctx, pod, query)
	case "attach":
		at, _, err = s.attachment(ctx, pod, query)
	case "portforward":
		at, err = s.ports(ctx, pod)
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a pod has no stream %q", kind))
	}
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(at)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return u, nil
}

// ports is where the runtime forwards a pod's ports.
func (s *Server) ports(ctx context.Context, pod *corev1.Pod) (string, error) {
	observed, err := s.observer.Observe(ctx, pod.UID)
	if err != nil {
		return "", apierrors.NewInternalError(err)
	}
	sandbox := observed.Sandbox()
	if sandbox == nil || !sandbox.Ready {
		return "", apierrors.NewBadRequest(fmt.Sprintf("unable to forward port because pod is not running. Current status=%v", pod.Status.Phase))
	}
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.cfg.Runtime.PortForward(callCtx, &runtimeapi.PortForwardRequest{PodSandboxId: sandbox.ID})
	if err != nil {
		return "", apierrors.NewInternalError(err)
	}
	return resp.GetUrl(), nil
}
