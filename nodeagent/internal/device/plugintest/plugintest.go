// Package plugintest is a small device plugin for tests. It does what its guide asks of plugins: it serves a socket of its own, registers, and does both again
// when the node's socket is made anew.
package plugintest

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Plugin has some devices of one resource.
type Plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	Dir, Resource string
	Options       *pluginapi.DevicePluginOptions
	// Answer says what a container needs to use devices.
	Answer func(ids []string) (*pluginapi.ContainerAllocateResponse, error)
	// Silent has it fail instead of telling of its devices.
	Silent error
	// Prefer says which devices go well together; nil is no idea.
	Prefer func(available, must []string, size int) []string

	mu      sync.Mutex
	devices []*pluginapi.Device
	news    chan struct{} // closed with the next change of the devices
	calls   []string
	server  *grpc.Server
}

// Devices makes healthy devices.
func Devices(ids ...string) []*pluginapi.Device {
	var out []*pluginapi.Device
	for _, id := range ids {
		out = append(out, &pluginapi.Device{ID: id, Health: pluginapi.Healthy})
	}
	return out
}

// On puts devices on a NUMA node.
func On(node int64, devices []*pluginapi.Device) []*pluginapi.Device {
	for _, d := range devices {
		d.Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: node}}}
	}
	return devices
}

// Set tells of other devices than before.
func (p *Plugin) Set(devices []*pluginapi.Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices = devices
	if p.news != nil {
		close(p.news)
	}
	p.news = make(chan struct{})
}

// Calls are those that were made of the plugin, in order.
func (p *Plugin) Calls() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

func (p *Plugin) called(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
}

// Start serves and registers.
func (p *Plugin) Start() error {
	socket, err := p.Serve()
	if err != nil {
		return err
	}
	return Register(p.Dir, &pluginapi.RegisterRequest{Version: pluginapi.Version, Endpoint: filepath.Base(socket), ResourceName: p.Resource, Options: p.Options})
}

// Serve serves at the socket that it returns.
func (p *Plugin) Serve() (string, error) {
	socket := filepath.Join(p.Dir, filepath.Base(p.Resource)+".sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return "", err
	}
	server := grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(server, p)
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	go func() { _ = server.Serve(listener) }()
	return socket, nil
}

// Register calls the node.
func Register(dir string, req *pluginapi.RegisterRequest) error {
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, req, grpc.WaitForReady(true))
	return err
}

// Stop ends the plugin's server.
func (p *Plugin) Stop() {
	p.mu.Lock()
	server := p.server
	p.server = nil
	p.mu.Unlock()
	if server != nil {
		server.Stop()
	}
}

// Live is a plugin's whole life in a test: whenever the node's socket is made, it starts anew.
func (p *Plugin) Live(t *testing.T) {
	t.Helper()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	if err := watcher.Add(p.Dir); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range watcher.Events {
			if filepath.Base(e.Name) == "kubelet.sock" && e.Has(fsnotify.Create) {
				p.Stop()
				if err := p.Start(); err != nil {
					t.Errorf("the plugin of %s starts anew: %v", p.Resource, err)
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = watcher.Close()
		<-done
		p.Stop()
	})
}

// GetDevicePluginOptions implements DevicePluginServer.
func (p *Plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return p.Options, nil
}

// ListAndWatch implements DevicePluginServer.
func (p *Plugin) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	if p.Silent != nil {
		return p.Silent
	}
	for {
		p.mu.Lock()
		if p.news == nil {
			p.news = make(chan struct{})
		}
		devices, news := p.devices, p.news
		p.mu.Unlock()
		if err := stream.Send(&pluginapi.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-news:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// GetPreferredAllocation implements DevicePluginServer.
func (p *Plugin) GetPreferredAllocation(_ context.Context, req *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	c := req.GetContainerRequests()[0]
	p.called("prefer %d of %v with %v", c.GetAllocationSize(), c.GetAvailableDeviceIDs(), c.GetMustIncludeDeviceIDs())
	answer := &pluginapi.ContainerPreferredAllocationResponse{}
	if p.Prefer != nil {
		answer.DeviceIDs = p.Prefer(c.GetAvailableDeviceIDs(), c.GetMustIncludeDeviceIDs(), int(c.GetAllocationSize()))
	}
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{answer}}, nil
}

// Allocate implements DevicePluginServer.
func (p *Plugin) Allocate(_ context.Context, req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	ids := req.GetContainerRequests()[0].GetDevicesIds()
	p.called("allocate %v", ids)
	answer := &pluginapi.ContainerAllocateResponse{}
	if p.Answer != nil {
		var err error
		if answer, err = p.Answer(ids); err != nil {
			return nil, err
		}
	}
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{answer}}, nil
}

// PreStartContainer implements DevicePluginServer.
func (p *Plugin) PreStartContainer(_ context.Context, req *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	p.called("prestart %v", req.GetDevicesIds())
	return &pluginapi.PreStartContainerResponse{}, nil
}
