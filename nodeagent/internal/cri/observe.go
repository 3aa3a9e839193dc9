package cri

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// callTimeout bounds the runtime calls that only read.
const callTimeout = 30 * time.Second

// Observer reads pods from the runtime. It remembers containers that have
// exited, which never change again.
type Observer struct {
	runtime runtimeapi.RuntimeServiceClient

	mu     sync.Mutex
	exited map[string]Container
}

// NewObserver returns an observer of a runtime.
func NewObserver(runtime runtimeapi.RuntimeServiceClient) *Observer {
	return &Observer{runtime: runtime, exited: map[string]Container{}}
}

// Observe returns what the runtime holds of a pod now.
func (o *Observer) Observe(ctx context.Context, uid types.UID) (*Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	label := map[string]string{LabelPodUID: string(uid)}
	sandboxes, err := o.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: label}})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	pod := &Pod{UID: uid}
	for _, s := range sandboxes.GetItems() {
		pod.Sandboxes = append(pod.Sandboxes, Sandbox{
			ID: s.GetId(), Handler: s.GetRuntimeHandler(), Attempt: s.GetMetadata().GetAttempt(), Created: time.Unix(0, s.GetCreatedAt()),
			Ready: s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY,
		})
		pod.Namespace, pod.Name = s.GetMetadata().GetNamespace(), s.GetMetadata().GetName()
	}
	slices.SortFunc(pod.Sandboxes, func(a, b Sandbox) int { return b.Created.Compare(a.Created) })
	if newest := pod.Sandbox(); newest != nil && newest.Ready {
		if err := o.addresses(ctx, newest); err != nil {
			return nil, err
		}
	}
	containers, err := o.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: label}})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	for _, c := range containers.GetContainers() {
		container, ok, err := o.container(ctx, c)
		if err != nil {
			return nil, err
		}
		if ok {
			pod.Containers = append(pod.Containers, container)
		}
	}
	slices.SortFunc(pod.Containers, func(a, b Container) int {
		if a.Name == b.Name && a.Attempt != b.Attempt {
			return int(b.Attempt - a.Attempt)
		}
		return b.Created.Compare(a.Created)
	})
	return pod, nil
}

func (o *Observer) addresses(ctx context.Context, s *Sandbox) error {
	resp, err := o.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: s.ID})
	if status.Code(err) == codes.NotFound {
		s.Ready = false
		return nil
	}
	if err != nil {
		return fmt.Errorf("sandbox status: %w", err)
	}
	network := resp.GetStatus().GetNetwork()
	if network.GetIp() != "" {
		s.IPs = append(s.IPs, network.GetIp())
	}
	for _, extra := range network.GetAdditionalIps() {
		s.IPs = append(s.IPs, extra.GetIp())
	}
	return nil
}

// container completes a list entry; ok is false where it has gone meanwhile.
func (o *Observer) container(ctx context.Context, c *runtimeapi.Container) (_ Container, ok bool, _ error) {
	o.mu.Lock()
	known, hit := o.exited[c.GetId()]
	o.mu.Unlock()
	if hit {
		return known, true, nil
	}
	resp, err := o.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
	if status.Code(err) == codes.NotFound {
		return Container{}, false, nil
	}
	if err != nil {
		return Container{}, false, fmt.Errorf("container status: %w", err)
	}
	container := fromStatus(resp.GetStatus())
	container.SandboxID = c.GetPodSandboxId()
	if container.State == Exited {
		o.mu.Lock()
		o.exited[container.ID] = container
		o.mu.Unlock()
	}
	return container, true, nil
}

// Forget drops what is remembered of a removed container.
func (o *Observer) Forget(containerID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.exited, containerID)
}

func fromStatus(s *runtimeapi.ContainerStatus) Container {
	c := Container{
		ID: s.GetId(), Name: s.GetLabels()[LabelContainer],
		Created: moment(s.GetCreatedAt()), Started: moment(s.GetStartedAt()), Finished: moment(s.GetFinishedAt()),
		ExitCode: s.GetExitCode(), Reason: s.GetReason(), Message: s.GetMessage(),
		Image: imageName(s), ImageRef: s.GetImageRef(),
		Hash: s.GetAnnotations()[AnnotationHash], LogPath: s.GetLogPath(), Annotations: s.GetAnnotations(), User: userOf(s.GetUser()),
		StopSignal: signalName(s.GetStopSignal()),
	}
	attempt, err := strconv.ParseInt(s.GetAnnotations()[AnnotationRestartCount], 10, 32)
	if err != nil {
		attempt = int64(s.GetMetadata().GetAttempt())
	}
	c.Attempt = int32(attempt)
	if n, err := strconv.ParseInt(s.GetAnnotations()[AnnotationLife], 10, 32); err == nil {
		c.Life = int32(n)
	}
	switch s.GetState() {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		c.State = Created
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		c.State = Running
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		c.State = Exited
	default:
		c.State = Unknown
	}
	return c
}

// userOf is who a container runs as, in the API's terms.
func userOf(u *runtimeapi.ContainerUser) *corev1.ContainerUser {
	if u == nil {
		return nil
	}
	out := &corev1.ContainerUser{}
	if l := u.GetLinux(); l != nil {
		out.Linux = &corev1.LinuxContainerUser{UID: l.GetUid(), GID: l.GetGid(), SupplementalGroups: l.GetSupplementalGroups()}
	}
	return out
}

// imageName prefers the name that the pod asked for over the digest by which
// the runtime knows the image.
func imageName(s *runtimeapi.ContainerStatus) string {
	if asked := s.GetImage().GetUserSpecifiedImage(); asked != "" && strings.HasPrefix(s.GetImage().GetImage(), "sha256:") {
		return asked
	}
	return s.GetImage().GetImage()
}

func moment(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}
