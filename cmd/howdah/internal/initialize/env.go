// Package initialize makes a machine a control plane: the first of a cluster, or a further one.
//
// What is done is a list of phases, each of which may be run alone, and again: what is there and right is left.
package initialize

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/kit/object"
	"howdah.dev/kit/rpc"
	"howdah.dev/kit/wholefile"
)

// Services run what a machine is. None of them is surprised by what is done already.
type Services interface {
	Install(ctx context.Context, unit daemon.Unit) error
	Start(ctx context.Context, name string) error
	Restart(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
	Status(ctx context.Context, name string) (daemon.Status, error)
	Remove(ctx context.Context, name string) error
}

// Folder is where a control plane keeps what it is.
type Folder string

// Files of the folder.
func (f Folder) PKI() string      { return filepath.Join(string(f), "pki") }
func (f Folder) Admin() string    { return filepath.Join(string(f), "admin.conf") }
func (f Folder) Settings() string { return filepath.Join(string(f), "control-plane.env") }

// Made has the documents that the control plane was made of, and Marker says since when it is whole.
func (f Folder) Made() string   { return filepath.Join(string(f), "control-plane.yaml") }
func (f Folder) Marker() string { return filepath.Join(string(f), "initialized") }

// Processes are those of a machine without systemd.
func (f Folder) Processes() string { return filepath.Join(string(f), "run") }

// There says whether something of a control plane is in the folder.
func (f Folder) There() bool {
	_, err := os.Stat(f.Made())
	return err == nil
}

// Since is when the control plane was whole, as text; empty where it is not.
func (f Folder) Since() (string, error) {
	data, err := os.ReadFile(f.Marker())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(data), err
}

// Load reads the documents that the control plane was made of.
func (f Folder) Load() (clusterfile.InitConfiguration, clusterfile.ClusterConfiguration, error) {
	data, err := os.ReadFile(f.Made())
	if err != nil {
		return clusterfile.InitConfiguration{}, clusterfile.ClusterConfiguration{}, err
	}
	d, err := clusterfile.Decode(data)
	if err == nil && (d.Init == nil || d.Cluster == nil) {
		err = errors.New("a document is missing")
	}
	if err != nil {
		return clusterfile.InitConfiguration{}, clusterfile.ClusterConfiguration{}, fmt.Errorf("%s: %w", f.Made(), err)
	}
	return *d.Init, *d.Cluster, nil
}

func (f Folder) save(i clusterfile.InitConfiguration, c clusterfile.ClusterConfiguration) error {
	i.CertificateKey, i.BootstrapTokens, i.SkipPhases = "", nil, nil // secrets of the moment, and what is not of the machine
	data, err := clusterfile.Encode(i, c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(f), 0o755); err != nil {
		return err
	}
	return wholefile.Write(f.Made(), data, 0o600)
}

// Env is what phases work with.
type Env struct {
	Folder  Folder
	Init    clusterfile.InitConfiguration
	Cluster clusterfile.ClusterConfiguration

	UploadCerts    bool
	SkipTokenPrint bool
	DryRun         bool

	Services Services
	// Executable is this program, which the service is to run.
	Executable string
	UID        int
	Release    string
	Out        io.Writer
	Clock      clock.Clock

	// Client is an administrator's, of this machine's control plane. Nil is the real one.
	Client func() (*object.Client, error)

	conn   *grpc.ClientConn
	client *object.Client
	lines  []string // what machines join by
}

func (e *Env) say(format string, args ...any) { fmt.Fprintf(e.Out, format+"\n", args...) }

// local is host:port of what this machine listens on.
func (e *Env) local(port int32) string {
	host := e.Init.LocalEndpoint.BindAddress
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// API is an administrator's client of this machine's control plane.
func (e *Env) API() (*object.Client, error) {
	if e.client != nil {
		return e.client, nil
	}
	var err error
	if e.Client != nil {
		e.client, err = e.Client()
		return e.client, err
	}
	identity, err := rpc.LoadIdentity(filepath.Join(e.Folder.PKI(), "admin"))
	if err != nil {
		return nil, fmt.Errorf("the administrator's certificate (howdah init phase certs): %w", err)
	}
	if e.conn, err = rpc.Dial("passthrough:///"+e.local(e.Cluster.Ports.Nodes), identity.Client("apiserver")); err != nil {
		return nil, err
	}
	e.client = object.NewClient(e.conn, "howdah-init")
	return e.client, nil
}

// Close ends the client.
func (e *Env) Close() {
	if e.conn != nil {
		_ = e.conn.Close()
	}
	e.conn, e.client = nil, nil
}

// tls is how this machine's gateway is asked, as the administrator.
func (e *Env) tls() (*tls.Config, error) {
	identity, err := rpc.LoadIdentity(filepath.Join(e.Folder.PKI(), "admin"))
	if err != nil {
		return nil, err
	}
	return identity.Client("gateway"), nil
}

// writeFor bounds what a phase asks of the API: in its first moments much is refused that it takes a moment later.
const writeFor = time.Minute
