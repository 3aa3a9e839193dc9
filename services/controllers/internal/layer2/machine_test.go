package layer2

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/controllers/internal/cloudnodelifecycle"
)

func TestMachine(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		address string
		err     error
		want    cloudnodelifecycle.Machine
		dialled string
	}{
		"it answers":           {"192.0.2.21", nil, cloudnodelifecycle.Running, "192.0.2.21:10256"},
		"it refuses":           {"192.0.2.21", syscall.ECONNREFUSED, cloudnodelifecycle.Running, "192.0.2.21:10256"},
		"it says nothing":      {"192.0.2.21", os.ErrDeadlineExceeded, cloudnodelifecycle.Running, "192.0.2.21:10256"},
		"nobody has it":        {"192.0.2.21", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, cloudnodelifecycle.Stopped, "192.0.2.21:10256"},
		"it is of another net": {"198.51.100.1", nil, cloudnodelifecycle.Running, ""},
	} {
		dialled := ""
		m := Machines{
			Networks: func() ([]netip.Prefix, error) { return []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, nil },
			Dial: func(_ context.Context, _, address string) (net.Conn, error) {
				dialled = address
				if c.err == nil {
					here, there := net.Pipe()
					there.Close()
					return here, nil
				}
				return nil, c.err
			},
		}
		n := node("n", "Unknown")
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n"}, {Type: corev1.NodeInternalIP, Address: c.address}}
		got, err := m.Machine(t.Context(), n)
		if got != c.want || err != nil || dialled != c.dialled {
			t.Errorf("%s: %d, %v, dialled %q", what, got, err, dialled)
		}
		is, err := m.Instance(t.Context(), n)
		if known := is != nil && is.ProviderID == "layer2://n"; err != nil || known != (c.dialled != "") {
			t.Errorf("%s: instance %v, %v", what, is, err)
		}
	}
	broken := Machines{Networks: func() ([]netip.Prefix, error) { return nil, errors.New("broken") }}
	if _, err := broken.Machine(t.Context(), node("n", "Unknown")); err == nil {
		t.Error("a machine is told of without networks")
	}
}
