package initialize

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/kit/rpc"
)

func TestAwaitReady(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.must(t, "certs")
	identity, err := rpc.LoadIdentity(m.Folder.PKI() + "/gateway")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || asked.Add(1) < 3 {
			http.Error(w, "[-]store failed", http.StatusInternalServerError)
		}
	}))
	server.TLS = &tls.Config{GetCertificate: identity.Server().GetCertificate}
	server.StartTLS()
	defer server.Close()
	m.Cluster.Ports.API = int32(server.Listener.Addr().(*net.TCPAddr).Port)
	m.services.running[daemon.ControlPlane] = true
	if err := m.AwaitReady(t.Context()); err != nil || asked.Load() != 3 {
		t.Errorf("%v after %d questions", err, asked.Load())
	}
	asked.Store(-1 << 30)
	m.Init.Timeout.Duration = time.Second
	if err := m.AwaitReady(t.Context()); err == nil || !strings.Contains(err.Error(), "[-]store failed") {
		t.Errorf("one that is never ready: %v", err)
	}
	m.Init.Timeout.Duration = time.Minute
	m.services.running[daemon.ControlPlane] = false
	if err := m.AwaitReady(t.Context()); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("one that has ended: %v", err)
	}
}
