// Package fakecri is a container runtime in memory, for tests. Its
// containers run until the test ends them, or StopContainer does.
package fakecri

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime implements the clients of both CRI services; methods that no test
// needs panic.
type Runtime struct {
	runtimeapi.RuntimeServiceClient
	runtimeapi.ImageServiceClient

	mu         sync.Mutex
	next       int
	sandboxes  map[string]*runtimeapi.PodSandbox
	containers map[string]*container
	images     map[string]bool
	calls      []string
	fail       map[string]error
	pulls      func(ctx context.Context, image string) error
	exec       func(id string, command []string) (string, int32)
}

type container struct {
	config  *runtimeapi.ContainerConfig
	status  *runtimeapi.ContainerStatus
	sandbox string
}

// New returns an empty runtime.
func New() *Runtime {
	return &Runtime{
		sandboxes: map[string]*runtimeapi.PodSandbox{}, containers: map[string]*container{}, images: map[string]bool{}, fail: map[string]error{},
		exec: func(string, []string) (string, int32) { return "", 0 },
	}
}

// Fail makes every later call of a method fail; nil lets it succeed again.
func (r *Runtime) Fail(method string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail[method] = err
}

// AddImage makes an image be there.
func (r *Runtime) AddImage(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images[name] = true
}

// OnPull says how pulls end; without it they succeed.
func (r *Runtime) OnPull(pull func(ctx context.Context, image string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pulls = pull
}

// OnExec says what commands answer.
func (r *Runtime) OnExec(exec func(container string, command []string) (output string, code int32)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exec = exec
}

// Calls returns what was changed so far: "Method name".
func (r *Runtime) Calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Exit ends the newest run of a container.
func (r *Runtime) Exit(name string, code int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var newest *container
	for _, c := range r.containers {
		if c.config.GetMetadata().GetName() == name && (newest == nil || c.config.GetMetadata().GetAttempt() > newest.config.GetMetadata().GetAttempt()) {
			newest = c
		}
	}
	if newest == nil {
		panic("no container " + name)
	}
	end(newest, code)
}

// Config returns the configuration of a container's newest run, nil without one.
func (r *Runtime) Config(name string) *runtimeapi.ContainerConfig {
	r.mu.Lock()
	defer r.mu.Unlock()
	var newest *runtimeapi.ContainerConfig
	for _, c := range r.containers {
		if c.config.GetMetadata().GetName() == name && (newest == nil || c.config.GetMetadata().GetAttempt() > newest.GetMetadata().GetAttempt()) {
			newest = c.config
		}
	}
	return newest
}

func end(c *container, code int32) {
	c.status.State, c.status.ExitCode, c.status.FinishedAt = runtimeapi.ContainerState_CONTAINER_EXITED, code, time.Now().UnixNano()
	c.status.Reason = "Error"
	if code == 0 {
		c.status.Reason = "Completed"
	}
}

// begin notes a call and returns its injected failure. The caller holds mu.
func (r *Runtime) begin(method, about string, changes bool) error {
	if changes {
		r.calls = append(r.calls, strings.TrimSpace(method+" "+about))
	}
	return r.fail[method]
}

func (r *Runtime) id(kind string) string {
	r.next++
	return fmt.Sprintf("%s-%d", kind, r.next)
}

func selected(labels, selector map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// Version implements RuntimeServiceClient.
func (r *Runtime) Version(context.Context, *runtimeapi.VersionRequest, ...grpc.CallOption) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "fake", RuntimeVersion: "1"}, nil
}

// Status implements RuntimeServiceClient.
func (r *Runtime) Status(context.Context, *runtimeapi.StatusRequest, ...grpc.CallOption) (*runtimeapi.StatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.begin("Status", "", false); err != nil {
		return nil, err
	}
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true},
	}}}, nil
}

// RunPodSandbox implements RuntimeServiceClient.
func (r *Runtime) RunPodSandbox(_ context.Context, in *runtimeapi.RunPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.RunPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	config := in.GetConfig()
	if err := r.begin("RunPodSandbox", config.GetMetadata().GetName(), true); err != nil {
		return nil, err
	}
	id := r.id("sandbox")
	r.sandboxes[id] = &runtimeapi.PodSandbox{
		Id: id, Metadata: config.GetMetadata(), State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: time.Now().UnixNano(),
		Labels: config.GetLabels(), Annotations: config.GetAnnotations(), RuntimeHandler: in.GetRuntimeHandler(),
	}
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: id}, nil
}

// StopPodSandbox implements RuntimeServiceClient.
func (r *Runtime) StopPodSandbox(_ context.Context, in *runtimeapi.StopPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.begin("StopPodSandbox", in.GetPodSandboxId(), true); err != nil {
		return nil, err
	}
	if s := r.sandboxes[in.GetPodSandboxId()]; s != nil {
		s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// RemovePodSandbox implements RuntimeServiceClient.
func (r *Runtime) RemovePodSandbox(_ context.Context, in *runtimeapi.RemovePodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.RemovePodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.begin("RemovePodSandbox", in.GetPodSandboxId(), true); err != nil {
		return nil, err
	}
	delete(r.sandboxes, in.GetPodSandboxId())
	for id, c := range r.containers {
		if c.sandbox == in.GetPodSandboxId() {
			delete(r.containers, id)
		}
	}
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// ListPodSandbox implements RuntimeServiceClient.
func (r *Runtime) ListPodSandbox(_ context.Context, in *runtimeapi.ListPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.begin("ListPodSandbox", "", false); err != nil {
		return nil, err
	}
	out := &runtimeapi.ListPodSandboxResponse{}
	for _, s := range r.sandboxes {
		if selected(s.GetLabels(), in.GetFilter().GetLabelSelector()) {
			out.Items = append(out.Items, &runtimeapi.PodSandbox{
				Id: s.Id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, Labels: s.Labels, Annotations: s.Annotations, RuntimeHandler: s.RuntimeHandler,
			})
		}
	}
	return out, nil
}

// PodSandboxStatus implements RuntimeServiceClient.
func (r *Runtime) PodSandboxStatus(_ context.Context, in *runtimeapi.PodSandboxStatusRequest, _ ...grpc.CallOption) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[in.GetPodSandboxId()]
	if s == nil {
		return nil, status.Error(codes.NotFound, "no such sandbox")
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: s.GetId(), State: s.GetState(), Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "10.0.0.9"},
	}}, nil
}

// CreateContainer implements RuntimeServiceClient.
func (r *Runtime) CreateContainer(_ context.Context, in *runtimeapi.CreateContainerRequest, _ ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	config := in.GetConfig()
	if err := r.begin("CreateContainer", config.GetMetadata().GetName(), true); err != nil {
		return nil, err
	}
	id := r.id("container")
	r.containers[id] = &container{config: config, sandbox: in.GetPodSandboxId(), status: &runtimeapi.ContainerStatus{
		Id: id, Metadata: config.GetMetadata(), State: runtimeapi.ContainerState_CONTAINER_CREATED, CreatedAt: time.Now().UnixNano(),
		Image: config.GetImage(), ImageRef: "sha256:fake", Labels: config.GetLabels(), Annotations: config.GetAnnotations(), LogPath: config.GetLogPath(),
	}}
	return &runtimeapi.CreateContainerResponse{ContainerId: id}, nil
}

// StartContainer implements RuntimeServiceClient.
func (r *Runtime) StartContainer(_ context.Context, in *runtimeapi.StartContainerRequest, _ ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[in.GetContainerId()]
	if c == nil {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	if err := r.begin("StartContainer", c.config.GetMetadata().GetName(), true); err != nil {
		end(c, 128)
		return nil, err
	}
	c.status.State, c.status.StartedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
	return &runtimeapi.StartContainerResponse{}, nil
}

// StopContainer implements RuntimeServiceClient.
func (r *Runtime) StopContainer(_ context.Context, in *runtimeapi.StopContainerRequest, _ ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[in.GetContainerId()]
	if c == nil {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	if err := r.begin("StopContainer", fmt.Sprintf("%s %d", c.config.GetMetadata().GetName(), in.GetTimeout()), true); err != nil {
		return nil, err
	}
	code := int32(143)
	if in.GetTimeout() == 0 {
		code = 137
	}
	end(c, code)
	return &runtimeapi.StopContainerResponse{}, nil
}

// UpdateContainerResources implements RuntimeServiceClient.
func (r *Runtime) UpdateContainerResources(_ context.Context, in *runtimeapi.UpdateContainerResourcesRequest, _ ...grpc.CallOption) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[in.GetContainerId()]
	if c == nil {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	l := in.GetLinux()
	about := fmt.Sprintf("%s cpu=%d memory=%d", c.config.GetMetadata().GetName(), l.GetCpuQuota(), l.GetMemoryLimitInBytes())
	if l.GetCpusetCpus() != "" {
		about += " cpus=" + l.GetCpusetCpus()
	}
	if err := r.begin("UpdateContainerResources", about, true); err != nil {
		return nil, err
	}
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// ContainerStats implements RuntimeServiceClient: every container uses 20 MB.
func (r *Runtime) ContainerStats(context.Context, *runtimeapi.ContainerStatsRequest, ...grpc.CallOption) (*runtimeapi.ContainerStatsResponse, error) {
	return &runtimeapi.ContainerStatsResponse{Stats: &runtimeapi.ContainerStats{Memory: &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: 20_000_000}}}}, nil
}

// RemoveContainer implements RuntimeServiceClient.
func (r *Runtime) RemoveContainer(_ context.Context, in *runtimeapi.RemoveContainerRequest, _ ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.begin("RemoveContainer", in.GetContainerId(), true); err != nil {
		return nil, err
	}
	delete(r.containers, in.GetContainerId())
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// ListContainers implements RuntimeServiceClient.
func (r *Runtime) ListContainers(_ context.Context, in *runtimeapi.ListContainersRequest, _ ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.begin("ListContainers", "", false); err != nil {
		return nil, err
	}
	out := &runtimeapi.ListContainersResponse{}
	for id, c := range r.containers {
		want := in.GetFilter().GetState()
		if selected(c.config.GetLabels(), in.GetFilter().GetLabelSelector()) && (want == nil || want.GetState() == c.status.GetState()) {
			out.Containers = append(out.Containers, &runtimeapi.Container{
				Id: id, PodSandboxId: c.sandbox, Metadata: c.config.GetMetadata(), State: c.status.GetState(), Labels: c.config.GetLabels(),
			})
		}
	}
	return out, nil
}

// ContainerStatus implements RuntimeServiceClient.
func (r *Runtime) ContainerStatus(_ context.Context, in *runtimeapi.ContainerStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[in.GetContainerId()]
	if c == nil {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	s := c.status
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: s.Id, Metadata: s.Metadata, State: s.State, CreatedAt: s.CreatedAt, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt, ExitCode: s.ExitCode,
		Image: s.Image, ImageRef: s.ImageRef, Reason: s.Reason, Labels: s.Labels, Annotations: s.Annotations, LogPath: s.LogPath,
	}}, nil
}

// ReopenContainerLog implements RuntimeServiceClient.
func (r *Runtime) ReopenContainerLog(_ context.Context, in *runtimeapi.ReopenContainerLogRequest, _ ...grpc.CallOption) (*runtimeapi.ReopenContainerLogResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.ReopenContainerLogResponse{}, r.begin("ReopenContainerLog", in.GetContainerId(), true)
}

// CheckpointContainer implements RuntimeServiceClient. It writes nothing.
func (r *Runtime) CheckpointContainer(_ context.Context, in *runtimeapi.CheckpointContainerRequest, _ ...grpc.CallOption) (*runtimeapi.CheckpointContainerResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[in.GetContainerId()]
	if c == nil {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	about := fmt.Sprintf("%s for %v", c.config.GetMetadata().GetName(), time.Duration(in.GetTimeout())*time.Second)
	return &runtimeapi.CheckpointContainerResponse{}, r.begin("CheckpointContainer", about, true)
}

// ExecSync implements RuntimeServiceClient.
func (r *Runtime) ExecSync(_ context.Context, in *runtimeapi.ExecSyncRequest, _ ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	r.mu.Lock()
	c, exec, err := r.containers[in.GetContainerId()], r.exec, r.fail["ExecSync"]
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	output, code := exec(c.config.GetMetadata().GetName(), in.GetCmd())
	return &runtimeapi.ExecSyncResponse{Stdout: []byte(output), ExitCode: code}, nil
}

// ImageStatus implements ImageServiceClient.
func (r *Runtime) ImageStatus(_ context.Context, in *runtimeapi.ImageStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ImageStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.begin("ImageStatus", "", false); err != nil {
		return nil, err
	}
	if name := strings.TrimPrefix(in.GetImage().GetImage(), "sha256:"); r.images[name] {
		return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "sha256:" + name, Size: 1234}}, nil
	}
	return &runtimeapi.ImageStatusResponse{}, nil
}

// ListImages implements ImageServiceClient.
func (r *Runtime) ListImages(context.Context, *runtimeapi.ListImagesRequest, ...grpc.CallOption) (*runtimeapi.ListImagesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &runtimeapi.ListImagesResponse{}
	for name := range r.images {
		out.Images = append(out.Images, &runtimeapi.Image{Id: "sha256:" + name, RepoTags: []string{name}, Size: uint64(len(name))})
	}
	return out, nil
}

// PullImage implements ImageServiceClient.
func (r *Runtime) PullImage(ctx context.Context, in *runtimeapi.PullImageRequest, _ ...grpc.CallOption) (*runtimeapi.PullImageResponse, error) {
	name := in.GetImage().GetImage()
	r.mu.Lock()
	pull := r.pulls
	about := name
	if in.GetAuth() != nil {
		about += " as " + in.GetAuth().GetUsername()
	}
	err := r.begin("PullImage", about, true)
	r.mu.Unlock()
	if err == nil && pull != nil {
		err = pull(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	r.AddImage(name)
	return &runtimeapi.PullImageResponse{ImageRef: "sha256:" + name}, nil
}

// GetContainerEvents implements RuntimeServiceClient: this runtime has none.
func (r *Runtime) GetContainerEvents(context.Context, *runtimeapi.GetEventsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[runtimeapi.ContainerEventResponse], error) {
	return nil, status.Error(codes.Unimplemented, "no events")
}
