package assign

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/topology"
)

// provider hands out something of its own nodes.
type provider struct {
	name      string
	nodes     []int
	err       error
	given     []string
	released  []types.UID
	forWhole  bool
	forSingle bool
}

func (p *provider) hints() topology.Hints {
	out := topology.Hints{p.name: {}}
	for _, n := range p.nodes {
		out[p.name] = append(out[p.name], topology.Hint{Nodes: topology.Of(n), Preferred: true})
	}
	return out
}
func (p *provider) Hints(*corev1.Pod, *corev1.Container) topology.Hints {
	p.forSingle = true
	return p.hints()
}
func (p *provider) PodHints(*corev1.Pod) topology.Hints {
	p.forWhole = true
	return p.hints()
}
func (p *provider) Allocate(_ context.Context, _ *corev1.Pod, c *corev1.Container, near topology.Hint) error {
	if p.err != nil && c.Name == "main" {
		return p.err
	}
	p.given = append(p.given, fmt.Sprintf("%s %v", c.Name, near.Nodes.Nodes()))
	return nil
}
func (p *provider) Release(uid types.UID) { p.released = append(p.released, uid) }

type smt struct{}

func (smt) Error() string  { return "half a core" }
func (smt) Reason() string { return "SMTAlignmentError" }

// counted are the counters of what lies within a boundary.
func counted(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		name, ok := strings.CutPrefix(f.GetName(), "kubelet_container_aligned_compute_resources_")
		if !ok {
			continue
		}
		for _, m := range f.GetMetric() {
			out = append(out, fmt.Sprint(name, " ", m.GetLabel()[0].GetValue(), " ", m.GetLabel()[1].GetValue(), " ", m.GetCounter().GetValue()))
		}
	}
	return strings.Join(out, ", ")
}

func TestAdmit(t *testing.T) {
	for name, c := range map[string]struct {
		policy        topology.Policy
		scope         topology.Scope
		first, second provider
		reason, text  string
		given         []string
		counted       string // of what has to be on one node
	}{
		"both nodes suit the first, one the second": {policy: topology.SingleNode, first: provider{nodes: []int{0, 1}}, second: provider{nodes: []int{1}},
			given: []string{"init [1]", "main [1]"}, counted: "count numa_node container 2"},
		"nothing suits both": {policy: topology.SingleNode, first: provider{nodes: []int{0}}, second: provider{nodes: []int{1}},
			reason: "TopologyAffinityError", text: "Resources cannot be allocated with Topology locality", counted: "failure_count numa_node container 1"},
		"of a pod as a whole, on one node": {policy: topology.SingleNode, scope: topology.ScopePod, first: provider{nodes: []int{1}}, second: provider{nodes: []int{0, 1}},
			given: []string{"init [1]", "main [1]"}, counted: "count numa_node pod 1"},
		"nobody asks": {policy: topology.None, first: provider{nodes: []int{0}}, second: provider{nodes: []int{1}}, given: []string{"init []", "main []"}},
		"of the pod as a whole": {policy: topology.Restricted, scope: topology.ScopePod, first: provider{nodes: []int{1}}, second: provider{nodes: []int{0, 1}},
			given: []string{"init [1]", "main [1]"}},
		"nothing is left": {policy: topology.None, second: provider{err: errors.New("requested number of devices unavailable for x. Requested: 1, Available: 0")},
			reason: "UnexpectedAdmissionError",
			text:   "Allocate failed due to requested number of devices unavailable for x. Requested: 1, Available: 0, which is unexpected"},
		"a refusal of its own reason": {policy: topology.None, second: provider{err: fmt.Errorf("cpus: %w", smt{})}, reason: "SMTAlignmentError", text: "half a core"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.first.name, c.second.name = "first", "second"
			registry := prometheus.NewRegistry()
			a := New(Config{
				Providers: []Provider{&c.first, &c.second}, Scope: c.scope, Clock: clock.RealClock{}, Registerer: registry, Aligned: topology.NewAligned(registry),
				Topology: topology.Merger{Policy: c.policy, Nodes: topology.Of(0, 1)},
			})
			p := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "init"}}, Containers: []corev1.Container{{Name: "main"}}}}
			p.UID = "u"
			failure := a.Admit(t.Context(), p)
			if c.reason == "" {
				if failure != nil || !slices.Equal(c.first.given, c.given) || !slices.Equal(c.second.given, c.given) {
					t.Errorf("%+v; given %v and %v, want %v", failure, c.first.given, c.second.given, c.given)
				}
			} else {
				if failure == nil || failure.Reason != c.reason || failure.Message != c.text || !failure.Rejected {
					t.Errorf("%+v, want %s: %s", failure, c.reason, c.text)
				}
				if !slices.Contains(c.first.released, "u") || !slices.Contains(c.second.released, "u") {
					t.Error("what the pod had is not taken back")
				}
			}
			if got := counted(t, registry); got != c.counted {
				t.Errorf("counted: %s, not %s", got, c.counted)
			}
			asks := c.policy != topology.None
			if c.first.forWhole != (asks && c.scope == topology.ScopePod) || c.first.forSingle != (asks && c.scope != topology.ScopePod) {
				t.Errorf("asked for the pod: %t, for each container: %t", c.first.forWhole, c.first.forSingle)
			}
		})
	}
}

func TestForDevices(t *testing.T) {
	own := ForDevices([]*pluginapi.ContainerAllocateResponse{
		{
			Envs: map[string]string{"A": "1"}, Devices: []*pluginapi.DeviceSpec{{ContainerPath: "/dev/a", HostPath: "/dev/x", Permissions: "rw"}},
			Mounts: []*pluginapi.Mount{{ContainerPath: "/lib/a", HostPath: "/opt/a", ReadOnly: true}}, Annotations: map[string]string{"k": "v"},
			CdiDevices: []*pluginapi.CDIDevice{{Name: "example.com/a=1"}},
		},
		{Envs: map[string]string{"A": "2", "B": "2"}, Devices: []*pluginapi.DeviceSpec{{ContainerPath: "/dev/a", HostPath: "/dev/y"}}, Annotations: map[string]string{"k": "w"}},
	})
	var envs []string
	for _, e := range own.Envs {
		envs = append(envs, e.GetKey()+"="+string(e.GetValue()))
	}
	if !reflect.DeepEqual(envs, []string{"A=1", "B=2"}) || len(own.Devices) != 1 || own.Devices[0].GetHostPath() != "/dev/x" || own.Devices[0].GetPermissions() != "rw" ||
		len(own.Mounts) != 1 || !own.Mounts[0].GetReadonly() || own.Annotations["k"] != "v" || len(own.CDI) != 1 || own.CDI[0].GetName() != "example.com/a=1" {
		t.Errorf("%+v", own)
	}
}
