package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"

	"howdah.dev/nodeagent/internal/plugin"
)

const (
	// callTimeout is how long a driver may take for one call.
	callTimeout = 45 * time.Second
	// redialMax is the longest pause between tries to reach a driver whose socket is there.
	redialMax = 10 * time.Second
)

// services are those that drivers may offer, the newest first.
var services = []string{drav1.DRAPluginService, drav1beta1.DRAPluginService}

// driver is one program that serves a driver's name; while it is replaced, there are two.
type driver struct {
	name, endpoint string
	ctx            context.Context // until it is let go
	cancel         context.CancelFunc
	conn           *grpc.ClientConn
	client         drav1.DRAPluginClient
	connected      bool // the lock of Drivers is held
}

// Drivers are those that are registered on the node.
type Drivers struct {
	clock   clock.Clock
	metrics *metrics
	// health, which may be nil, follows what a driver tells of its devices.
	health func(*driver)
	poke   chan struct{} // some driver came or went

	mu     sync.Mutex
	closed bool
	byName map[string][]*driver // the last one registered last
	away   map[string]time.Time // drivers that cannot be reached, and since when; whose slices are gone is not in it
}

func newDrivers(clk clock.Clock, m *metrics) *Drivers {
	return &Drivers{clock: clk, metrics: m, poke: make(chan struct{}, 1), byName: map[string][]*driver{}, away: map[string]time.Time{}}
}

// choose returns the first service that a driver offers and the node knows.
func choose(offered []string) (string, error) {
	if len(offered) == 0 {
		return "", errors.New("empty list of supported gRPC services (aka supported versions)")
	}
	for _, service := range offered {
		if slices.Contains(services, service) {
			return service, nil
		}
	}
	return "", fmt.Errorf("none of services supported by the plugin (%q) are supported by the kubelet (%q)", offered, services)
}

// Register implements plugin.Handler.
func (d *Drivers) Register(_ context.Context, p plugin.Plugin) error {
	service, err := choose(p.Versions)
	if err != nil {
		return fmt.Errorf("invalid supported gRPC versions of DRA driver plugin %s at endpoint %s: %w", p.Name, p.Endpoint, err)
	}
	one, err := d.dial(p, service)
	if err != nil {
		return fmt.Errorf("create gRPC connection to DRA driver %s plugin at endpoint %s: %w", p.Name, p.Endpoint, err)
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		one.close()
		return errors.New("the node agent is ending")
	}
	before := d.take(p.Name, p.Endpoint)
	d.byName[p.Name] = append(d.byName[p.Name], one)
	d.changed(p.Name)
	d.mu.Unlock()
	if before != nil {
		before.close()
	}
	go d.follow(one)
	if d.health != nil {
		go d.health(one)
	}
	return nil
}

func (d *Drivers) dial(p plugin.Plugin, service string) (*driver, error) {
	measure := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		began := d.clock.Now()
		err := call(ctx, method, request, reply, conn, options...)
		d.metrics.calls.WithLabelValues(p.Name, method, status.Code(err).String()).Observe(d.clock.Since(began).Seconds())
		return err
	}
	pauses := backoff.DefaultConfig
	pauses.MaxDelay = redialMax
	conn, err := grpc.NewClient("unix://"+p.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(measure),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: redialMax}))
	if err != nil {
		return nil, err
	}
	one := &driver{name: p.Name, endpoint: p.Endpoint, conn: conn, client: drav1.NewDRAPluginClient(conn)}
	one.ctx, one.cancel = context.WithCancel(context.Background())
	if service == drav1beta1.DRAPluginService {
		one.client = drav1beta1.V1Beta1ClientWrapper{DRAPluginClient: drav1beta1.NewDRAPluginClient(conn)}
	}
	return one, nil
}

func (one *driver) close() {
	one.cancel()
	_ = one.conn.Close()
}

// follow notes whether a driver can be reached, until its connection is closed.
func (d *Drivers) follow(one *driver) {
	for {
		is := one.conn.GetState()
		if is == connectivity.Idle {
			one.conn.Connect() // that it is away is to be known before somebody calls it
		}
		d.mu.Lock()
		if one.connected != (is == connectivity.Ready) {
			one.connected = is == connectivity.Ready
			d.changed(one.name)
		}
		d.mu.Unlock()
		if is == connectivity.Shutdown {
			return
		}
		one.conn.WaitForStateChange(context.Background(), is)
	}
}

// Deregister implements plugin.Handler.
func (d *Drivers) Deregister(_ context.Context, p plugin.Plugin) {
	d.mu.Lock()
	one := d.take(p.Name, p.Endpoint)
	d.changed(p.Name)
	d.mu.Unlock()
	if one != nil {
		one.close()
	}
}

// take returns the driver of a name and endpoint, and forgets it. The lock is held.
func (d *Drivers) take(name, endpoint string) *driver {
	all := d.byName[name]
	i := slices.IndexFunc(all, func(one *driver) bool { return one.endpoint == endpoint })
	if i < 0 {
		return nil
	}
	one := all[i]
	if d.byName[name] = slices.Delete(slices.Clone(all), i, i+1); len(all) == 1 {
		delete(d.byName, name)
	}
	return one
}

// changed notes since when a driver cannot be reached. The lock is held.
func (d *Drivers) changed(name string) {
	if d.usable(name) {
		delete(d.away, name)
	} else if _, known := d.away[name]; !known {
		d.away[name] = d.clock.Now()
	}
	select {
	case d.poke <- struct{}{}:
	default:
	}
}

// usable reports whether a driver can be reached. The lock is held.
func (d *Drivers) usable(name string) bool {
	return slices.ContainsFunc(d.byName[name], func(one *driver) bool { return one.connected })
}

// get returns the one that serves a driver's name: of those that can be reached, or else of all, the last that has registered.
func (d *Drivers) get(name string) (*driver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.byName[name]
	for _, one := range slices.Backward(all) {
		if one.connected {
			return one, nil
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("DRA driver %s is not registered", name)
	}
	return all[len(all)-1], nil
}

// close ends all connections, for good.
func (d *Drivers) close() {
	d.mu.Lock()
	all := d.byName
	d.closed, d.byName = true, map[string][]*driver{}
	d.mu.Unlock()
	for _, list := range all {
		for _, one := range list {
			one.close()
		}
	}
}
