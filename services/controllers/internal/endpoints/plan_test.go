package endpoints

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func newService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"tier": "front"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, ClusterIP: "10.96.0.1",
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("web"), Protocol: corev1.ProtocolTCP}},
		},
	}
}

func newPod(i int, ready bool, port int32) *corev1.Pod {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint("uid-", i))},
		Spec: corev1.PodSpec{
			NodeName: "node-1", Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: port, Protocol: corev1.ProtocolTCP}}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.%d.%d.%d", i/62500, i/250%250, i%250+1),
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
		},
	}
}

func TestSubsets(t *testing.T) {
	t.Parallel()
	ending := newPod(5, true, 8080)
	ending.DeletionTimestamp = &metav1.Time{}
	pods := []*corev1.Pod{newPod(2, true, 8080), newPod(1, true, 8080), newPod(3, false, 8080), newPod(4, true, 9090), ending}
	e := Decide(newService(), pods, nil, time.Unix(0, 0))
	if len(e.Subsets) != 2 {
		t.Fatalf("%d subsets, want one a port: %+v", len(e.Subsets), e.Subsets)
	}
	shown := byPort(e)
	first := shown[0]
	if first.Ports[0].Port != 8080 || len(first.Addresses) != 2 || first.Addresses[0].IP != "10.0.0.2" || len(first.NotReadyAddresses) != 1 {
		t.Errorf("subset %+v", first)
	}
	if second := shown[1]; second.Ports[0].Port != 9090 || len(second.Addresses) != 1 {
		t.Errorf("subset %+v", second)
	}
	if e.Labels["tier"] != "front" || e.Labels["endpoints.kubernetes.io/managed-by"] != "endpoint-controller" {
		t.Errorf("labels %v", e.Labels)
	}
	if again := Decide(newService(), pods, e, time.Unix(0, 0)); again != nil {
		t.Errorf("a second plan writes %+v", again)
	}
	s := newService()
	s.Spec.PublishNotReadyAddresses = true
	if shown := byPort(Decide(s, pods, nil, time.Unix(0, 0))); len(shown[0].Addresses) != 4 || len(shown[0].NotReadyAddresses) != 0 {
		t.Errorf("published subset %+v, want all four pods of the port, the ending one too", shown[0])
	}
}

// byPort are subsets in the order of their ports; theirs is that of hashes.
func byPort(e *corev1.Endpoints) []corev1.EndpointSubset {
	return slices.SortedFunc(slices.Values(e.Subsets), func(a, b corev1.EndpointSubset) int { return int(a.Ports[0].Port - b.Ports[0].Port) })
}

func TestHeadlessWithoutPorts(t *testing.T) {
	t.Parallel()
	s := newService()
	s.Spec.ClusterIP, s.Spec.Ports = corev1.ClusterIPNone, nil
	e := Decide(s, []*corev1.Pod{newPod(1, true, 1)}, nil, time.Unix(0, 0))
	if len(e.Subsets) != 1 || len(e.Subsets[0].Addresses) != 1 || len(e.Subsets[0].Ports) != 0 {
		t.Errorf("subsets %+v", e.Subsets)
	}
	if _, ok := e.Labels[corev1.IsHeadlessService]; !ok {
		t.Errorf("labels %v", e.Labels)
	}
}

func TestTruncation(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	for i := range 1500 {
		pods = append(pods, newPod(i, i%3 != 0, 8080))
	}
	e := Decide(newService(), pods, nil, time.Unix(0, 0))
	if n := len(e.Subsets[0].Addresses); n != 1000 || len(e.Subsets[0].NotReadyAddresses) != 0 {
		t.Errorf("%d ready and %d other addresses, want 1000 ready ones", n, len(e.Subsets[0].NotReadyAddresses))
	}
	if e.Annotations["endpoints.kubernetes.io/over-capacity"] != "truncated" {
		t.Errorf("annotations %v", e.Annotations)
	}
	if e = Decide(newService(), pods[:900], e, time.Unix(0, 0)); e == nil || e.Annotations["endpoints.kubernetes.io/over-capacity"] != "" {
		t.Error("the annotation stays though all fit")
	}
}

func TestSubsetsGiveWayByTheirSizes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                   string
		ready, waiting         [2]int // by port
		wantReady, wantWaiting [2]int // the larger first
	}{
		{"ready ones over capacity", [2]int{1500, 500}, [2]int{100, 0}, [2]int{750, 250}, [2]int{}},
		{"room for some that wait", [2]int{600, 200}, [2]int{300, 100}, [2]int{600, 200}, [2]int{150, 50}},
		{"shares rounded up", [2]int{999, 2}, [2]int{}, [2]int{998, 2}, [2]int{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var pods []*corev1.Pod
			for port := range 2 {
				for i := range tt.ready[port] + tt.waiting[port] {
					pods = append(pods, newPod(5000*port+i, i < tt.ready[port], int32(8080+port)))
				}
			}
			subsets := Decide(newService(), pods, nil, time.Unix(0, 0)).Subsets
			if len(subsets) != 2 {
				t.Fatalf("%d subsets, want 2", len(subsets))
			}
			slices.SortFunc(subsets, func(a, b corev1.EndpointSubset) int { return cmp.Compare(a.Ports[0].Port, b.Ports[0].Port) })
			for port, s := range subsets {
				// Which subset is the last, whose share is what is left, is by hash: one more or less.
				if off := len(s.Addresses) - tt.wantReady[port]; off < -1 || off > 1 || len(s.NotReadyAddresses) != tt.wantWaiting[port] {
					t.Errorf("port %d: %d ready, %d waiting; want %d, %d", s.Ports[0].Port, len(s.Addresses), len(s.NotReadyAddresses), tt.wantReady[port], tt.wantWaiting[port])
				}
			}
		})
	}
}
