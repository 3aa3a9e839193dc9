// Package csi makes and removes, for pods, the volumes of the CSI drivers that are registered on the node.
//
// Paths and files are those of Kubernetes, which drivers, their pods and people know:
//
//	plugins/kubernetes.io/csi/DRIVER/SHA256 OF THE HANDLE/globalmount   where the driver stages a volume, once a node
//	pods/UID/volumes/kubernetes.io~csi/VOLUME/mount                     where it publishes it, once a pod
//
// and of volumes that are block devices
//
//	plugins/kubernetes.io/csi/volumeDevices/staging/VOLUME              where the driver stages one, once a node
//	plugins/kubernetes.io/csi/volumeDevices/publish/VOLUME/UID          the device itself, once a pod
//	pods/UID/volumeDevices/kubernetes.io~csi/VOLUME                     a link to that
//
// Beside each lies a vol_data.json (of devices in folders of their own, see place), written before the driver is called for the first time and removed after the last call. What is there,
// is in use or is to be undone follows from these files and the mounts, so the agent's next life goes on where this one stopped.
package csi

import (
	"context"
	"fmt"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// callTimeout is how long a driver may take for one call.
const callTimeout = 2 * time.Minute

// Driver is a driver's node service.
type Driver struct {
	Name, Endpoint string

	conn *grpc.ClientConn
	node csipb.NodeClient

	mu  sync.Mutex
	can map[csipb.NodeServiceCapability_RPC_Type]bool // nil until asked
}

// Drivers are those that are registered on the node.
type Drivers struct {
	calls *prometheus.HistogramVec

	mu     sync.Mutex
	byName map[string]*Driver
}

// NewDrivers returns an empty set.
func NewDrivers(registerer prometheus.Registerer) *Drivers {
	d := &Drivers{byName: map[string]*Driver{}, calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "csi_operations_seconds", Help: "How long calls of CSI drivers took, by driver, method and code of the answer.",
		Buckets:     []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
		ConstLabels: prometheus.Labels{"migrated": "false"}, // drivers are asked for what names them alone
	}, []string{"driver_name", "method_name", "grpc_status_code"})}
	registerer.MustRegister(d.calls)
	return d
}

// Dial returns a driver that nobody uses yet.
func (d *Drivers) Dial(name, endpoint string) (*Driver, error) {
	measure := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		began := time.Now()
		err := call(ctx, method, request, reply, conn, options...)
		d.calls.WithLabelValues(name, method, status.Code(err).String()).Observe(time.Since(began).Seconds())
		return err
	}
	conn, err := grpc.NewClient("unix://"+endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(measure))
	if err != nil {
		return nil, err
	}
	return &Driver{Name: name, Endpoint: endpoint, conn: conn, node: csipb.NewNodeClient(conn)}, nil
}

// Put takes a driver into use, in the place of another of its name.
func (d *Drivers) Put(driver *Driver) {
	d.mu.Lock()
	before := d.byName[driver.Name]
	d.byName[driver.Name] = driver
	d.mu.Unlock()
	if before != nil {
		_ = before.Close()
	}
}

// Remove takes the driver of a name and endpoint out of use, and reports whether it was there.
func (d *Drivers) Remove(name, endpoint string) bool {
	d.mu.Lock()
	driver := d.byName[name]
	there := driver != nil && driver.Endpoint == endpoint
	if there {
		delete(d.byName, name)
	}
	d.mu.Unlock()
	if there {
		_ = driver.Close()
	}
	return there
}

// Get returns the driver of a name.
func (d *Drivers) Get(name string) (*Driver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if driver := d.byName[name]; driver != nil {
		return driver, nil
	}
	return nil, fmt.Errorf("driver name %s not found in the list of registered CSI drivers", name)
}

// Close ends the connection.
func (d *Driver) Close() error { return d.conn.Close() }

// Info asks the driver what the node is to it.
func (d *Driver) Info(ctx context.Context) (*csipb.NodeGetInfoResponse, error) {
	return d.node.NodeGetInfo(ctx, &csipb.NodeGetInfoRequest{})
}

// capable reports whether the driver's node service can do something. It is asked once: who learns more registers again.
func (d *Driver) capable(ctx context.Context, what csipb.NodeServiceCapability_RPC_Type) (bool, error) {
	d.mu.Lock()
	can := d.can
	d.mu.Unlock()
	if can == nil {
		answer, err := d.node.NodeGetCapabilities(ctx, &csipb.NodeGetCapabilitiesRequest{})
		if err != nil {
			return false, err
		}
		can = map[csipb.NodeServiceCapability_RPC_Type]bool{}
		for _, c := range answer.GetCapabilities() {
			can[c.GetRpc().GetType()] = true
		}
		d.mu.Lock()
		d.can = can
		d.mu.Unlock()
	}
	return can[what], nil
}
