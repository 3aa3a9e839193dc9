package dra

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/dra/dratest"
	"howdah.dev/nodeagent/internal/plugin"
)

func (n *node) slice(name, driver, of string) {
	n.t.Helper()
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &of, Pool: resourcev1.ResourcePool{Name: of, ResourceSliceCount: 1}}}
	if _, err := object.For(n.client, object.ResourceSlice).Create(n.t.Context(), s); err != nil {
		n.t.Fatal(err)
	}
}

// has waits until the API has these slices.
func (n *node) has(step func(), want ...string) {
	n.t.Helper()
	eventually(n.t, "the slices "+strings.Join(want, " "), func() bool {
		if step != nil {
			step()
		}
		all, _, err := object.For(n.client, object.ResourceSlice).List(n.t.Context(), "", metav1.ListOptions{})
		if err != nil {
			n.t.Fatal(err)
		}
		var got []string
		for _, s := range all {
			got = append(got, s.Name)
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

func (n *node) usable(name string, want bool) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("%s usable: %v", name, want), func() bool {
		n.m.Drivers.mu.Lock()
		defer n.m.Drivers.mu.Unlock()
		return n.m.Drivers.usable(name) == want
	})
}

// Slices of drivers that do not register go soon after the start, those of one that goes after a while, unless it comes back.
func TestSlicesOfDriversThatAreGone(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	clk := testingclock.NewFakeClock(time.Unix(1e9, 0))
	n.m.Drivers.clock = clk
	d := n.drive(&dratest.Driver{Name: "gpu.example.com"})
	n.usable(d.Name, true)
	n.slice("gone", "gone.example.com", "n")
	n.slice("here", d.Name, "n")
	n.slice("other-node", "gone.example.com", "m")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.m.Slices.Run(ctx) }()
	n.has(func() { clk.Step(startGrace / 4) }, "here", "other-node")

	d.Stop() // it crashes: its registration stays for now
	n.usable(d.Name, false)
	n.m.Drivers.Deregister(t.Context(), plugin.Plugin{Name: d.Name, Endpoint: d.Endpoint()})
	clk.Step(wipeAfter / 2)
	d = n.drive(&dratest.Driver{Name: d.Name})
	n.usable(d.Name, true)
	clk.Step(2 * wipeAfter)
	n.slice("late", "late.example.com", "n") // nobody has known of its driver: that is not for the agent to judge
	n.has(nil, "here", "late", "other-node")

	n.m.Drivers.Deregister(t.Context(), plugin.Plugin{Name: d.Name, Endpoint: d.Endpoint()})
	n.has(func() { clk.Step(wipeAfter / 4) }, "late", "other-node")
	cancel()
	<-done
	if err := n.m.Drivers.Register(t.Context(), plugin.Plugin{Name: d.Name, Endpoint: d.Endpoint(), Versions: d.Services()}); err == nil {
		t.Error("a driver registered with an agent that has ended")
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	names, next := due(map[string]time.Time{"never": {}, "long": now.Add(-wipeAfter), "short": now.Add(-wipeAfter + 3*time.Second), "now": now}, now)
	if slices.Sort(names); !slices.Equal(names, []string{"long", "never"}) || next != 3*time.Second {
		t.Errorf("%v, next in %v", names, next)
	}
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for want, offered := range map[string][]string{
		"invalid supported gRPC versions of DRA driver plugin d at endpoint /s: empty list of supported gRPC services (aka supported versions)":                                                                   nil,
		`invalid supported gRPC versions of DRA driver plugin d at endpoint /s: none of services supported by the plugin (["v1alpha4.Node"]) are supported by the kubelet (["v1.DRAPlugin" "v1beta1.DRAPlugin"])`: {"v1alpha4.Node"},
	} {
		if err := n.m.Drivers.Register(t.Context(), plugin.Plugin{Name: "d", Endpoint: "/s", Versions: offered}); err == nil || err.Error() != want {
			t.Errorf("%v; wanted %s", err, want)
		}
	}
	// While a driver is replaced the one that came last is asked, as long as it answers.
	old := n.drive(&dratest.Driver{Name: "d"})
	n.usable("d", true)
	if err := n.m.Drivers.Register(t.Context(), plugin.Plugin{Name: "d", Endpoint: n.dir + "/nobody.sock", Versions: old.Services()}); err != nil {
		t.Fatal(err)
	}
	if one, err := n.m.Drivers.get("d"); err != nil || one.endpoint != old.Endpoint() {
		t.Errorf("%v %v", one, err)
	}
	n.m.Drivers.Deregister(t.Context(), plugin.Plugin{Name: "d", Endpoint: old.Endpoint()})
	if one, err := n.m.Drivers.get("d"); err != nil || one.endpoint == old.Endpoint() {
		t.Errorf("%v %v", one, err)
	}
}
