package nodeagent_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/device/plugintest"
)

// tap is a resource of a device plugin.
const tap = "example.com/tap"

// taps waits until the Node tells of so many devices, of which so many can be used.
func (n *node) taps(capacity, allocatable string) {
	n.t.Helper()
	eventually(n.t, time.Minute, func() string {
		node, err := object.For(n.client, object.Node).Get(n.t.Context(), "", nodeName)
		if err != nil {
			return err.Error()
		}
		all, usable := node.Status.Capacity[tap], node.Status.Allocatable[tap]
		if all.String() != capacity || usable.String() != allocatable {
			return "the node has " + all.String() + ", of which usable " + usable.String() + "; wanted " + capacity + " and " + allocatable
		}
		return ""
	})
}

// A plugin that knows nothing of howdah has devices; pods get them, as long as there are some, and keep them over a restart of the agent.
func TestRealNodeWithDevices(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := startNode(t)
	plugin := &plugintest.Plugin{
		Dir: filepath.Join(n.dir, "kubelet", "device-plugins"), Resource: tap, Options: &pluginapi.DevicePluginOptions{PreStartRequired: true},
		Answer: func(ids []string) (*pluginapi.ContainerAllocateResponse, error) {
			return &pluginapi.ContainerAllocateResponse{
				Envs:    map[string]string{"TAPS": strings.Join(ids, ",")},
				Devices: []*pluginapi.DeviceSpec{{HostPath: "/dev/full", ContainerPath: "/dev/tap0", Permissions: "rw"}},
				Mounts:  []*pluginapi.Mount{{HostPath: "/etc", ContainerPath: "/etc-of-node", ReadOnly: true}},
			}, nil
		},
	}
	plugin.Set(plugintest.Devices("left", "right"))
	plugin.Live(t)
	n.taps("2", "2")

	pod := func(name string, taps int64) *corev1.Pod {
		c := shell("echo $TAPS; exec sleep 7777")
		list := corev1.ResourceList{tap: *resource.NewQuantity(taps, resource.DecimalSI)}
		c.Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	}
	n.create(pod("tapped", 1))
	first := n.await("tapped", "ready", time.Minute, ready)
	s := first.Status.ContainerStatuses[0].AllocatedResourcesStatus
	if len(s) != 1 || s[0].Name != tap || len(s[0].Resources) != 1 || s[0].Resources[0].ResourceID != "left" || s[0].Resources[0].Health != corev1.ResourceHealthStatusHealthy {
		t.Errorf("its devices are told as %v", s)
	}
	if out, _, _ := n.run("tapped", "echo $TAPS; echo x > /dev/tap0; ls /etc-of-node/passwd; echo y > /etc-of-node/x", ""); out != "left\n/etc-of-node/passwd\n" {
		t.Errorf("in the container: %q", out)
	}
	if _, errs, _ := n.run("tapped", "echo x > /dev/tap0", ""); !strings.Contains(errs, "No space left on device") {
		t.Errorf("the device answers %q", errs)
	}
	if c := n.podResources("tapped").GetContainers(); len(c) != 1 || len(c[0].GetDevices()) != 1 || c[0].GetDevices()[0].GetResourceName() != tap || c[0].GetDevices()[0].GetDeviceIds()[0] != "left" {
		t.Errorf("it is said to have %v", c)
	}
	n.create(pod("late", 2))
	late := n.await("late", "refused", time.Minute, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if want := "Pod was rejected: Allocate failed due to requested number of devices unavailable for example.com/tap. Requested: 2, Available: 1, which is unexpected"; late.Status.Reason != "UnexpectedAdmissionError" || late.Status.Message != want {
		t.Errorf("%s: %s", late.Status.Reason, late.Status.Message)
	}
	n.remove("late")

	sick := plugintest.Devices("left", "right")
	sick[0].Health = pluginapi.Unhealthy
	plugin.Set(sick)
	n.taps("2", "1")
	n.await("tapped", "known as unhealthy", time.Minute, func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses[0].AllocatedResourcesStatus
		return len(s) == 1 && s[0].Resources[0].Health == corev1.ResourceHealthStatusUnhealthy
	})
	plugin.Set(plugintest.Devices("left", "right"))
	n.taps("2", "2")

	n.stop()
	n.startAgent()
	eventually(t, time.Minute, func() string { // the Node still says what the agent's last life said
		var usable []string
		n.askPodResources(func(ctx context.Context, c podresourcesapi.PodResourcesListerClient) error {
			all, err := c.GetAllocatableResources(ctx, &podresourcesapi.AllocatableResourcesRequest{}, grpc.WaitForReady(true))
			for _, d := range all.GetDevices() {
				usable = append(usable, d.GetDeviceIds()...)
			}
			return err
		})
		if len(usable) != 2 {
			return "the plugin has not registered again"
		}
		return ""
	})
	n.create(pod("other", 1))
	n.await("other", "ready", time.Minute, ready)
	n.logged("other", "container=main", "right\n") // though the agent has restarted
	n.remove("tapped")
	n.create(pod("heir", 1))
	n.await("heir", "ready", time.Minute, ready)
	n.logged("heir", "container=main", "left\n")
	n.remove("other")
	n.remove("heir")
	var prestarts []string
	for _, call := range plugin.Calls() {
		if strings.HasPrefix(call, "prestart") {
			prestarts = append(prestarts, call)
		}
	}
	if got := strings.Join(prestarts, " "); got != "prestart [left] prestart [right] prestart [left]" {
		t.Errorf("before the starts: %s", got)
	}
}
