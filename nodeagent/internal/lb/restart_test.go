package lb

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/bpf"
	"howdah.dev/nodeagent/internal/route/netnstest"
)

// What clients were promised outlives the agent: a client keeps its backend.
func TestAffinityOutlivesTheAgent(t *testing.T) {
	ns := netnstest.New(t, "node")
	backends(t, ns, "10.77.0.1", "10.77.0.2", "10.77.0.3")
	web := service("web", "10.96.0.10", tcp(80))
	web.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	objects := []any{web, endpointSlice("web", 8080, "10.77.0.1", "10.77.0.2", "10.77.0.3")}
	n := newNode(t, ns)
	n.start(objects...)
	before := answers(t, ns, "tcp", "10.96.0.10:80", 10)
	for range 3 {
		n.stop()
		n.start(objects...)
		if got := answers(t, ns, "tcp", "10.96.0.10:80", 10); len(got) != 1 || !maps.Equal(got, before) {
			t.Fatalf("after a restart: %v, before: %v", got, before)
		}
	}
}

// An agent of another version left maps of another shape: they are replaced, and the services work.
func TestOutdatedMapsAreReplaced(t *testing.T) {
	ns := netnstest.New(t, "node")
	backends(t, ns, "10.77.0.1")
	n := newNode(t, ns)
	if err := os.MkdirAll(n.at.Pins, 0o700); err != nil {
		t.Fatal(err)
	}
	old, err := ebpf.NewMap(&ebpf.MapSpec{Name: "old", Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := old.Pin(filepath.Join(n.at.Pins, bpf.LBMapFrontends)); err != nil {
		t.Fatal(err)
	}
	n.start(service("web", "10.96.0.10", tcp(80)), endpointSlice("web", 8080, "10.77.0.1"))
	if got := answers(t, ns, "tcp", "10.96.0.10:80", 5); !maps.Equal(got, map[string]int{"10.77.0.1": 5}) {
		t.Errorf("answers %v", got)
	}
	dump, err := Dump(n.at.Pins)
	if err != nil || !strings.Contains(dump, "10.96.0.10:80 TCP socket service=") || !strings.Contains(dump, "  -> 10.77.0.1:8080 local\n") {
		t.Errorf("dump %q, %v", dump, err)
	}
}

// What the machine lacks is named.
func TestMissingPartsAreNamed(t *testing.T) {
	ns := netnstest.New(t, "node")
	good := newNode(t, ns).at
	for _, tt := range []struct {
		name string
		at   Attachment
		want string
	}{
		{"no bpffs", Attachment{Cgroup: good.Cgroup, Pins: t.TempDir()}, "is not on a bpf file system"},
		{"no cgroup", Attachment{Cgroup: "/nowhere", Pins: good.Pins}, "stat cgroup /nowhere"},
		{"no cgroup2", Attachment{Cgroup: t.TempDir(), Pins: good.Pins}, "it must be a cgroup2"},
		{"no uplink", Attachment{Cgroup: good.Cgroup, Pins: good.Pins, Uplinks: []string{"eth7"}}, "uplink eth7"},
	} {
		b, err := New(Config{Node: Node{Name: testNode}, At: tt.at})
		if err != nil {
			t.Fatal(err)
		}
		b.Synced()
		if err := ns.Try(func() error { return b.Run(t.Context()) }); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
}

// An endpoint slice that changes its service leaves the one and joins the other.
func TestSliceChangesItsService(t *testing.T) {
	m := memoryMaps()
	s := memorySyncer(t, Config{}, m)
	a, b := service("a", "10.96.0.1", tcp(80)), service("b", "10.96.0.2", tcp(80))
	slice := endpointSlice("a", 8080, "10.77.0.1")
	for _, o := range []any{a, b, slice} {
		s.Update(t.Context(), o)
	}
	moved := endpointSlice("b", 8080, "10.77.0.1")
	moved.Name = slice.Name
	s.Update(t.Context(), moved)
	if err := s.sync(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	want := Table{
		{Address: clusterIPs(a)[0], Port: 80, Protocol: corev1.ProtocolTCP}: {Service: "default/a:tcp"},
		{Address: clusterIPs(b)[0], Port: 80, Protocol: corev1.ProtocolTCP}: {Service: "default/b:tcp", Backends: rotation(endpointsOf(tcp(80), corev1.IPv4Protocol, s.in.slicesOf(b), s.in.node), false, s.in.node)},
	}
	if err := holds(m, want); err != nil {
		t.Error(err)
	}
	s.Delete(t.Context(), slice) // its last known state may be old: the name counts
	if err := s.sync(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	want[Frontend{Address: clusterIPs(b)[0], Port: 80, Protocol: corev1.ProtocolTCP}] = Entry{Service: "default/b:tcp"}
	if err := holds(m, want); err != nil {
		t.Error(err)
	}
}
