package csinode

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/nodeagent/internal/csi"
	"howdah.dev/nodeagent/internal/plugin"
)

// fake is a driver that says what the node is to it.
type fake struct {
	csipb.UnimplementedNodeServer
	mu    sync.Mutex
	says  *csipb.NodeGetInfoResponse
	asked int
	heard func()
}

func (f *fake) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.heard != nil {
		f.heard()
	}
	return f.says, nil
}

// say changes how many volumes there may be from now on.
func (f *fake) say(most int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.says = &csipb.NodeGetInfoResponse{NodeId: f.says.GetNodeId(), MaxVolumesPerNode: most}
}

func (f *fake) serve(t *testing.T, name string) plugin.Plugin {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := plugin.Plugin{Type: "CSIPlugin", Name: name, Endpoint: filepath.Join(dir, "csi.sock"), Versions: []string{"1.0.0"}}
	listener, err := net.Listen("unix", p.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csipb.RegisterNodeServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return p
}

func setup(t *testing.T) (*Keeper, *object.Client) {
	t.Helper()
	_, client := objecttest.Start(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}}}
	if _, err := object.For(client, object.Node).Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return New(Config{NodeName: "n", Client: client, Drivers: csi.NewDrivers(prometheus.NewRegistry()), Clock: clock.RealClock{},
		About: func(context.Context, string) (*storagev1.CSIDriver, error) { return nil, nil }}), client
}

// TestDriversInTheAPI follows a driver that comes, moves and goes, beside one that an earlier life of the agent has told of.
func TestDriversInTheAPI(t *testing.T) {
	t.Parallel()
	k, client := setup(t)
	if err := k.tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	get := func() (string, *corev1.Node) {
		t.Helper()
		n, err := object.For(client, object.CSINode).Get(t.Context(), "", "n")
		if err != nil {
			t.Fatal(err)
		}
		node, err := object.For(client, object.Node).Get(t.Context(), "", "n")
		if err != nil {
			t.Fatal(err)
		}
		if len(n.OwnerReferences) != 1 || n.OwnerReferences[0].UID != node.UID {
			t.Errorf("the CSINode belongs to %v", n.OwnerReferences)
		}
		var said []string
		for _, d := range n.Spec.Drivers {
			text := d.Name + "=" + d.NodeID + "/" + strings.Join(d.TopologyKeys, "+")
			if d.Allocatable != nil {
				text += "*" + string(rune('0'+*d.Allocatable.Count))
			}
			said = append(said, text)
		}
		return strings.Join(said, " "), node
	}
	if said, node := get(); said != "" || node.Annotations[object.ManagedAttachAnnotation] != "true" {
		t.Errorf("at first %q, %v", said, node.Annotations)
	}
	f := &fake{says: &csipb.NodeGetInfoResponse{NodeId: "i-1", MaxVolumesPerNode: 5, AccessibleTopology: &csipb.Topology{Segments: map[string]string{"disk": "x", "zone": "a"}}}}
	p := f.serve(t, "d")
	if err := k.Register(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	said, node := get()
	if said != "d=i-1/disk+zone*5" || node.Labels["disk"] != "x" || node.Annotations[nodeIDAnnotation] != `{"d":"i-1"}` {
		t.Errorf("registered: %q, %v, %v", said, node.Labels, node.Annotations)
	}
	if _, err := k.cfg.Drivers.Get("d"); err != nil {
		t.Error(err)
	}
	moved := &fake{says: &csipb.NodeGetInfoResponse{NodeId: "i-2"}}
	q := moved.serve(t, "d")
	if err := k.Register(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if said, node := get(); said != "d=i-2/" || node.Annotations[nodeIDAnnotation] != `{"d":"i-2"}` {
		t.Errorf("moved: %q, %v", said, node.Annotations)
	}
	k.Deregister(t.Context(), p) // the one before is not the one that is here
	if _, err := k.cfg.Drivers.Get("d"); err != nil {
		t.Error(err)
	}
	k.Deregister(t.Context(), q)
	if said, node := get(); said != "" || node.Annotations[nodeIDAnnotation] != "" {
		t.Errorf("gone: %q, %v", said, node.Annotations)
	}
	if _, err := k.cfg.Drivers.Get("d"); err == nil {
		t.Error("the driver is in use still")
	}
}

func TestDriversThatAreRefused(t *testing.T) {
	t.Parallel()
	k, _ := setup(t)
	for name, c := range map[string]struct {
		info     *csipb.NodeGetInfoResponse
		versions []string
		says     string
	}{
		"too old":         {&csipb.NodeGetInfoResponse{NodeId: "i"}, []string{"0.3.0"}, "none of the CSI versions reported by this driver (0.3.0) are supported"},
		"no name for it":  {&csipb.NodeGetInfoResponse{}, []string{"1.0.0"}, "NodeGetInfo of CSI driver x: it returned an empty node ID"},
		"it is elsewhere": {&csipb.NodeGetInfoResponse{NodeId: "i", AccessibleTopology: &csipb.Topology{Segments: map[string]string{"zone": "b"}}}, []string{"1.0.0"}, `detected topology value collision: driver reported "zone":"b" but existing label is "zone":"a"`},
	} {
		p := (&fake{says: c.info}).serve(t, "x")
		p.Versions = c.versions
		if err := k.Register(t.Context(), p); err == nil || err.Error() != c.says {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
}
