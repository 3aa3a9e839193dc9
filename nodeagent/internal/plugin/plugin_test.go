package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/utils/clock"
)

// fake is a plugin that serves its registration.
type fake struct {
	registerapi.UnimplementedRegistrationServer
	info *registerapi.PluginInfo
	told chan *registerapi.RegistrationStatus
}

func (f *fake) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return f.info, nil
}

func (f *fake) NotifyRegistrationStatus(_ context.Context, s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	f.told <- s
	return &registerapi.RegistrationStatusResponse{}, nil
}

// serve answers at path until the test ends or stop is called, which removes the socket.
func (f *fake) serve(t *testing.T, path string) (stop func()) {
	t.Helper()
	f.told = make(chan *registerapi.RegistrationStatus, 10)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registerapi.RegisterRegistrationServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return server.Stop
}

func (f *fake) heard(t *testing.T) *registerapi.RegistrationStatus {
	t.Helper()
	select {
	case s := <-f.told:
		return s
	case <-time.After(time.Minute):
		t.Fatal("the plugin is told nothing")
		return nil
	}
}

// handler notes what it is called with.
type handler struct {
	calls    chan string
	registry *prometheus.Registry

	mu   sync.Mutex
	fail int // so many registrations fail
}

func (h *handler) Register(_ context.Context, p Plugin) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail > 0 {
		h.fail--
		return errors.New("not now")
	}
	h.calls <- "+" + p.Name + " " + filepath.Base(p.Endpoint) + " " + strings.Join(p.Versions, ",")
	return nil
}

func (h *handler) Deregister(_ context.Context, p Plugin) { h.calls <- "-" + p.Name }

func (h *handler) want(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-h.calls:
		if got != want {
			t.Fatalf("the handler heard %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the handler heard nothing, want %q", want)
	}
}

// counted waits until so many plugins are told of.
func (h *handler) counted(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		families, err := h.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range families {
			if f.GetName() != "plugin_manager_total_plugins" {
				continue
			}
			for _, m := range f.GetMetric() {
				got = append(got, fmt.Sprint(filepath.Base(m.GetLabel()[0].GetValue()), " ", m.GetLabel()[1].GetValue(), " ", m.GetGauge().GetValue()))
			}
		}
		if strings.Join(got, ", ") == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("told of %q, not of %s", got, want)
		}
	}
}

func run(t *testing.T, dir string) *handler {
	t.Helper()
	h := &handler{calls: make(chan string, 10), registry: prometheus.NewRegistry()}
	w := New(Config{Dir: dir, Handlers: map[string]Handler{"CSIPlugin": h}, Clock: clock.RealClock{}, Registerer: h.registry})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return h
}

func TestPluginsComeAndGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	early := &fake{info: &registerapi.PluginInfo{Type: "CSIPlugin", Name: "early", Endpoint: "/x/csi.sock", SupportedVersions: []string{"1.0.0", "1.1.0"}}}
	stopEarly := early.serve(t, filepath.Join(dir, "early.sock"))
	h := run(t, dir)
	h.want(t, "+early csi.sock 1.0.0,1.1.0")
	if s := early.heard(t); !s.GetPluginRegistered() {
		t.Errorf("told %v", s)
	}
	h.counted(t, "early.sock actual_state_of_world 1, early.sock desired_state_of_world 1")
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	late := &fake{info: &registerapi.PluginInfo{Type: "CSIPlugin", Name: "late"}}
	stopLate := late.serve(t, filepath.Join(dir, "sub", "late.sock"))
	h.want(t, "+late late.sock ")
	stopEarly()
	h.want(t, "-early")
	// Another process comes in the place of the first: it is registered, and nothing is taken out of use for that.
	stopLate()
	again := &fake{info: &registerapi.PluginInfo{Type: "CSIPlugin", Name: "late", Endpoint: "/other"}}
	again.serve(t, filepath.Join(dir, "sub", "late.sock"))
	got := <-h.calls
	if got == "-late" { // the folder was looked at in between
		got = <-h.calls
	}
	if got != "+late other " {
		t.Errorf("the handler heard %q", got)
	}
	h.counted(t, "late.sock actual_state_of_world 1, late.sock desired_state_of_world 1")
}

// TestTriedAgain registers a plugin whose handler cannot take it at first.
func TestTriedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := run(t, dir)
	h.mu.Lock()
	h.fail = 1
	h.mu.Unlock()
	f := &fake{info: &registerapi.PluginInfo{Type: "CSIPlugin", Name: "p"}}
	f.serve(t, filepath.Join(dir, "p.sock"))
	if s := f.heard(t); s.GetPluginRegistered() || !strings.HasSuffix(s.GetError(), "not now") {
		t.Errorf("told %v", s)
	}
	h.want(t, "+p p.sock ")
	if s := f.heard(t); !s.GetPluginRegistered() {
		t.Errorf("told %v", s)
	}
}

// TestUnknownType tells a plugin that nobody has a use for it.
func TestUnknownType(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run(t, dir)
	f := &fake{info: &registerapi.PluginInfo{Type: "FloppyPlugin", Name: "p"}}
	f.serve(t, filepath.Join(dir, "p.sock"))
	if s := f.heard(t); s.GetPluginRegistered() || !strings.HasSuffix(s.GetError(), "no handler registered for plugin type: FloppyPlugin") {
		t.Errorf("told %v", s)
	}
}
