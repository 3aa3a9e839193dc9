// Package dratest is a small driver of claims for tests: it registers as drivers do, by a socket in the folder of registrations, and gives each claim the devices that
// it is told to.
package dratest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Driver is one.
type Driver struct {
	drav1.UnimplementedDRAPluginServer
	// Name is the driver's, Dir the folder of its socket.
	Name, Dir string
	// Beta lets it speak v1beta1 only.
	Beta bool
	// Devices are those of each claim, by the claim's name; others get one without anything to tell the runtime.
	Devices map[string][]*drav1.Device

	// Tells lets it tell how its devices are, by Report.
	Tells bool

	mu     sync.Mutex
	health []*drahealth.DeviceHealth
	news   chan struct{} // closed with the next report
	calls  []string
	fails  map[string]string // by method
	server *grpc.Server
}

// Endpoint is the socket where it serves.
func (d *Driver) Endpoint() string { return filepath.Join(d.Dir, d.Name+".sock") }

// Services are what it says that it speaks.
func (d *Driver) Services() []string {
	if d.Beta {
		return []string{"v1beta1.DRAPlugin"}
	}
	return []string{"v1.DRAPlugin", "v1beta1.DRAPlugin"}
}

// Serve listens until Stop, or the test's end. With a folder of registrations it registers there.
func (d *Driver) Serve(t testing.TB, registry string) {
	t.Helper()
	d.server = grpc.NewServer()
	if d.Beta {
		drav1beta1.RegisterDRAPluginServer(d.server, drav1beta1.V1ServerWrapper{DRAPluginServer: d})
	} else {
		drav1.RegisterDRAPluginServer(d.server, d)
	}
	if d.Tells {
		drahealth.RegisterDRAResourceHealthServer(d.server, teller{d: d})
	}
	registerapi.RegisterRegistrationServer(d.server, registration{d: d})
	paths := []string{d.Endpoint()}
	if registry != "" {
		paths = append(paths, filepath.Join(registry, d.Name+"-reg.sock"))
	}
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		go func(server *grpc.Server) { _ = server.Serve(listener) }(d.server)
	}
	t.Cleanup(d.Stop)
}

// Stop ends it; its sockets go with it.
func (d *Driver) Stop() { d.server.Stop() }

// Fail lets calls of a method (prepare, unprepare) fail for all claims; with no message they do not any more.
func (d *Driver) Fail(method, message string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails == nil {
		d.fails = map[string]string{}
	}
	d.fails[method] = message
}

// Calls are those that were made of it, in order: "prepare A B".
func (d *Driver) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// called notes a call and returns the failure of the method.
func (d *Driver) called(method string, claims []*drav1.Claim) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for _, c := range claims {
		names = append(names, c.GetName())
	}
	slices.Sort(names)
	d.calls = append(d.calls, method+" "+strings.Join(names, " "))
	return d.fails[method]
}

// Report tells how devices are.
func (d *Driver) Report(devices ...*drahealth.DeviceHealth) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.health = devices
	if d.news != nil {
		close(d.news)
	}
	d.news = make(chan struct{})
}

// teller serves what is reported.
type teller struct {
	drahealth.UnimplementedDRAResourceHealthServer
	d *Driver
}

// NodeWatchResources sends every report.
func (t teller) NodeWatchResources(_ *drahealth.NodeWatchResourcesRequest, to grpc.ServerStreamingServer[drahealth.NodeWatchResourcesResponse]) error {
	for {
		t.d.mu.Lock()
		if t.d.news == nil {
			t.d.news = make(chan struct{})
		}
		health, news := t.d.health, t.d.news
		t.d.mu.Unlock()
		if err := to.Send(&drahealth.NodeWatchResourcesResponse{Devices: health}); err != nil {
			return err
		}
		select {
		case <-news:
		case <-to.Context().Done():
			return to.Context().Err()
		}
	}
}

// NodePrepareResources implements the driver's service.
func (d *Driver) NodePrepareResources(_ context.Context, in *drav1.NodePrepareResourcesRequest) (*drav1.NodePrepareResourcesResponse, error) {
	failure := d.called("prepare", in.GetClaims())
	out := &drav1.NodePrepareResourcesResponse{Claims: map[string]*drav1.NodePrepareResourceResponse{}}
	for _, c := range in.GetClaims() {
		devices, known := d.Devices[c.GetName()]
		if !known {
			devices = []*drav1.Device{{PoolName: "pool", DeviceName: "none"}}
		}
		out.Claims[c.GetUid()] = &drav1.NodePrepareResourceResponse{Devices: devices, Error: failure}
	}
	return out, nil
}

// NodeUnprepareResources implements the driver's service.
func (d *Driver) NodeUnprepareResources(_ context.Context, in *drav1.NodeUnprepareResourcesRequest) (*drav1.NodeUnprepareResourcesResponse, error) {
	failure := d.called("unprepare", in.GetClaims())
	out := &drav1.NodeUnprepareResourcesResponse{Claims: map[string]*drav1.NodeUnprepareResourceResponse{}}
	for _, c := range in.GetClaims() {
		out.Claims[c.GetUid()] = &drav1.NodeUnprepareResourceResponse{Error: failure}
	}
	return out, nil
}

type registration struct {
	registerapi.UnimplementedRegistrationServer
	d *Driver
}

// GetInfo says what it is.
func (r registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.DRAPlugin, Name: r.d.Name, Endpoint: r.d.Endpoint(), SupportedVersions: r.d.Services()}, nil
}

// NotifyRegistrationStatus hears how it went.
func (r registration) NotifyRegistrationStatus(_ context.Context, in *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.d.calls = append(r.d.calls, fmt.Sprintf("registered %v %s", in.GetPluginRegistered(), in.GetError()))
	return &registerapi.RegistrationStatusResponse{}, nil
}
