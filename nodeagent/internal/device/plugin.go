package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// maxMessage is the most that a plugin may say of its devices at once.
const maxMessage = 16 << 20

// plugin is what has one resource.
type plugin struct {
	resource string
	socket   string
	options  *pluginapi.DevicePluginOptions
	client   pluginapi.DevicePluginClient // nil before it has registered in this life of the agent
	devices  map[string]*pluginapi.Device
	away     time.Time // since when it does not answer; zero while it does
	cancel   context.CancelFunc
}

// ok reports whether a device can be given to somebody.
func (p *plugin) ok(id string) bool {
	d := p.devices[id]
	return d != nil && d.GetHealth() == pluginapi.Healthy && p.away.IsZero()
}

func (p *plugin) healthy() map[string]*pluginapi.Device {
	out := maps.Clone(p.devices)
	maps.DeleteFunc(out, func(id string, _ *pluginapi.Device) bool { return !p.ok(id) })
	return out
}

func nodesOf(d *pluginapi.Device) []int64 {
	var out []int64
	for _, n := range d.GetTopology().GetNodes() {
		out = append(out, n.GetID())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// registration is what plugins call.
type registration struct {
	pluginapi.UnimplementedRegistrationServer
	m *Manager
}

// Register takes a plugin; the last one of a resource counts.
func (r registration) Register(ctx context.Context, req *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	r.m.metrics.registered(req.GetResourceName())
	if req.GetVersion() != pluginapi.Version {
		return nil, status.Errorf(codes.InvalidArgument, "requested API version %q is not supported by kubelet. Supported version is %q", req.GetVersion(), pluginapi.SupportedVersions)
	}
	if !filepath.IsLocal(req.GetEndpoint()) {
		return nil, status.Errorf(codes.InvalidArgument, "the endpoint %q is not a socket of the folder", req.GetEndpoint())
	}
	if err := r.m.Connect(ctx, req.GetResourceName(), filepath.Join(r.m.cfg.Dir, req.GetEndpoint())); err != nil {
		return nil, err
	}
	return &pluginapi.Empty{}, nil
}

// Extended reports whether a resource is one that plugins may have.
func Extended(name string) bool {
	domain, _, found := strings.Cut(name, "/")
	return found && !strings.HasPrefix(name, "requests.") && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") &&
		len(validation.IsQualifiedName("requests."+name)) == 0
}

// Connect begins to follow the plugin that listens at a socket. One that does not say what its options are is not used.
func (m *Manager) Connect(ctx context.Context, resource, socket string) error {
	if !Extended(resource) {
		return status.Errorf(codes.InvalidArgument, "the ResourceName %q is invalid", resource)
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("plugin of %s: %w", resource, err)
	}
	p := &plugin{resource: resource, socket: socket, client: pluginapi.NewDevicePluginClient(conn)}
	if err := p.ask(ctx); err != nil {
		_ = conn.Close()
		return fmt.Errorf("failed to get device plugin options: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx == nil {
		_ = conn.Close()
		return status.Error(codes.Unavailable, "the node agent is ending")
	}
	followed, cancel := context.WithCancel(m.ctx)
	p.cancel = cancel
	m.running.Go(func() {
		defer conn.Close()
		defer cancel()
		m.follow(followed, p)
	})
	return nil
}

// follow takes what a plugin tells of its devices until it ends, or another one takes its place.
func (m *Manager) follow(ctx context.Context, p *plugin) {
	stream, err := p.client.ListAndWatch(ctx, &pluginapi.Empty{})
	told := false
	for err == nil {
		var said *pluginapi.ListAndWatchResponse
		if said, err = stream.Recv(); err == nil {
			m.listed(p, said.GetDevices())
			told = true
		}
	}
	if ctx.Err() != nil {
		return
	}
	if !told { // the node has its resource, and nothing of it
		m.listed(p, nil)
	}
	if !errors.Is(err, io.EOF) {
		slog.Warn("a device plugin does not answer any more", "resource", p.resource, "err", err)
	}
	m.lost(p)
}

// ask asks the plugin for its options.
func (p *plugin) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, optionsTimeout)
	defer cancel()
	options, err := p.client.GetDevicePluginOptions(ctx, &pluginapi.Empty{}, grpc.WaitForReady(true)) // it may be about to listen
	p.options = options
	return err
}

// Disconnect ends the use of the plugin that listens at a socket.
func (m *Manager) Disconnect(resource, socket string) {
	m.mu.Lock()
	p := m.plugins[resource]
	if p == nil || p.socket != socket || !p.away.IsZero() {
		m.mu.Unlock()
		return
	}
	p.cancel()
	m.mu.Unlock()
	m.lost(p)
}

// listed takes a plugin's devices. With the first list it becomes the resource's.
func (m *Manager) listed(p *plugin, devices []*pluginapi.Device) {
	m.mu.Lock()
	old := m.plugins[p.resource]
	if old != p {
		if old != nil {
			old.cancel()
		}
		m.plugins[p.resource] = p
		delete(m.removed, p.resource)
		slog.Info("device plugin registered", "resource", p.resource, "devices", len(devices))
	}
	p.away, p.devices = time.Time{}, map[string]*pluginapi.Device{}
	for _, d := range devices {
		p.devices[d.GetID()] = d
	}
	err := m.save()
	holders := m.holders(p.resource)
	m.mu.Unlock()
	if err != nil {
		slog.Error("keep whose devices are whose", "err", err)
	}
	m.changed(holders)
}

// lost marks that a plugin has gone; its devices are not to be used.
func (m *Manager) lost(p *plugin) {
	m.mu.Lock()
	if m.plugins[p.resource] != p {
		m.mu.Unlock()
		return
	}
	p.away = m.cfg.Clock.Now()
	holders := m.holders(p.resource)
	// The capacity is told once more when the grace is over.
	ctx := m.ctx
	if ctx != nil {
		m.running.Go(func() { m.forget(ctx) })
	}
	m.mu.Unlock()
	m.changed(holders)
}

// forget tells, when the grace of a plugin is over, that the node has changed.
func (m *Manager) forget(ctx context.Context) {
	timer := m.cfg.Clock.NewTimer(gracePeriod)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
		m.changed(nil)
	}
}

func (m *Manager) changed(holders []types.UID) {
	if m.cfg.Changed != nil {
		m.cfg.Changed(holders)
	}
}

func count(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }
