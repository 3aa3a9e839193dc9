package standalone

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Mesh is a control plane of processes of their own, with one authority and one database.
type Mesh struct{ binary, dir, database string }

// NewMesh makes the keys and the tables of a mesh; it starts no process.
func NewMesh(ctx context.Context, binary, dir, databaseURL string) (*Mesh, error) {
	m := &Mesh{binary, dir, databaseURL}
	for _, args := range [][]string{
		{"pki", "--out", m.keys(""), "--gateway-names", "127.0.0.1,localhost"},
		{"migrate", "--database-url", databaseURL},
	} {
		if out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("howdah %s: %w\n%s", args[0], err, out)
		}
	}
	return m, nil
}

func (m *Mesh) keys(role string) string { return filepath.Join(m.dir, "pki", role) }

// Kubeconfig is the path of the administrator's kubeconfig; its server is none of the mesh's.
func (m *Mesh) Kubeconfig() string { return filepath.Join(m.keys("admin"), "kubeconfig") }

// APIServer prepares an apiserver, which is ready when it answers; whether its state is loaded, its gateways know.
func (m *Mesh) APIServer(name string, args ...string) (*Process, error) {
	return m.role(name, "apiserver", func(_, metrics string) string { return "http://" + metrics + "/healthz" },
		append([]string{"--database-url", m.database}, args...))
}

// Gateway prepares a gateway of the apiservers at a gRPC target.
func (m *Mesh) Gateway(name, target string, args ...string) (*Process, error) {
	return m.role(name, "gateway", func(address, _ string) string { return "https://" + address + "/readyz" },
		append([]string{"--apiserver", target}, args...))
}

func (m *Mesh) role(name, role string, ready func(address, metrics string) string, args []string) (*Process, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &Process{Address: address, Metrics: metrics, ready: ready(address, metrics), dir: m.dir}
	p.args = append([]string{m.binary, role, "--listen", address, "--metrics-listen", metrics, "--tls-dir", m.keys(role), "--log-level", "warn"}, args...)
	p.log, err = os.OpenFile(filepath.Join(m.dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return p, err
}
