package controllers

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	controllersv1 "howdah.dev/proto/gen/howdah/controllers/v1"
)

// TestFailover: when a leader is deposed, another takes over within two
// seconds, and the deposed one can lead again later. Each write bears the
// epoch of its leader.
func TestFailover(t *testing.T) {
	t.Parallel()
	var (
		mu     sync.Mutex
		fences = map[string]bool{}
	)
	api := objecttest.New()
	api.Intercept = func(w objecttest.Write) error {
		mu.Lock()
		defer mu.Unlock()
		if w.Resource == "replicasets" && w.Verb != "delete" {
			fences[w.Fence] = true
		}
		return nil
	}
	client := api.Serve(t)
	create(t, client, object.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	leadership := leadingtest.New()
	var servers []*Server
	for range 2 {
		s, err := New(Config{Objects: api.Serve(t), Leadership: leadership, Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, s)
		start(t, s.Run)
		if !s.Ready(t.Context()) {
			t.Fatal("the caches do not fill")
		}
	}
	for round := range 4 {
		d := nginx(3)
		d.Name = fmt.Sprint("round-", round)
		d.Spec.Selector.MatchLabels = map[string]string{"app": d.Name}
		d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
		begin := time.Now()
		create(t, client, object.Deployment, d)
		await(t, client, object.ReplicaSet, "3 replicas of "+d.Name, func(sets []*appsv1.ReplicaSet) bool {
			done := 0
			for _, rs := range sets {
				if rs.Status.Replicas == 3 {
					done++
				}
			}
			return done == round+1
		})
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("round %d took %v", round, took)
		}
		leaders := 0
		for _, s := range servers {
			queues, err := s.ListQueues(t.Context(), &controllersv1.ListQueuesRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if queues.GetLeader() {
				leaders++
			}
			if len(queues.GetQueues()) < 8 {
				t.Errorf("%d queues, want one a controller", len(queues.GetQueues()))
			}
		}
		if leaders != 1 {
			t.Errorf("%d leaders", leaders)
		}
		leadership.Depose()
	}
	if n := api.Calls("create pods"); n != 12 {
		t.Errorf("%d pods were created, want 12", n)
	}
	mu.Lock()
	defer mu.Unlock()
	for f := range fences {
		var epoch int
		if n, err := fmt.Sscanf(f, "controllers/%d", &epoch); n != 1 || err != nil || epoch < 1 {
			t.Errorf("a write bears the fence %q", f)
		}
	}
	if len(fences) < 3 {
		t.Errorf("fences %v, want those of several leaders", fences)
	}
}

// TestNewLeaderWaitsForItsCaches: a standby that has not heard of what the leader made makes none of it again.
func TestNewLeaderWaitsForItsCaches(t *testing.T) {
	t.Parallel()
	api := objecttest.New()
	client := api.Serve(t)
	late, lateClient := api.ServeLate(t)
	create(t, client, object.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	leadership := leadingtest.New()
	follow := func(client *object.Client) *Server {
		s, err := New(Config{Objects: client, Leadership: leadership, Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(), Enabled: "workloads,network"})
		if err != nil {
			t.Fatal(err)
		}
		start(t, s.Run)
		if !s.Ready(t.Context()) {
			t.Fatal("the caches do not fill")
		}
		return s
	}
	made := func(name string) {
		d := nginx(3)
		d.Name = name
		d.Spec.Selector.MatchLabels = map[string]string{"app": name}
		d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
		create(t, client, object.Deployment, d)
		create(t, client, object.Service, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.ServiceSpec{Selector: d.Spec.Selector.MatchLabels, ClusterIP: "10.0.0.1", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
		})
		await(t, client, object.ReplicaSet, "3 replicas of "+name, func(sets []*appsv1.ReplicaSet) bool {
			return slices.ContainsFunc(sets, func(rs *appsv1.ReplicaSet) bool { return rs.Labels["app"] == name && rs.Status.Replicas == 3 })
		})
		await(t, client, object.EndpointSlice, "slice of "+name, func(all []*discoveryv1.EndpointSlice) bool {
			return slices.ContainsFunc(all, func(s *discoveryv1.EndpointSlice) bool { return s.Labels[discoveryv1.LabelServiceName] == name })
		})
	}
	follow(client)
	made("first") // it leads
	standby := follow(lateClient)
	var releases []func()
	for _, resource := range []string{"replicasets", "pods", "endpointslices"} {
		releases = append(releases, late.Hold(resource))
	}
	made("before")
	leadership.Depose()
	for _, release := range releases {
		time.Sleep(50 * time.Millisecond) // nothing tells that a leader waits
		if queues, err := standby.ListQueues(t.Context(), &controllersv1.ListQueuesRequest{}); err != nil || queues.GetLeader() {
			t.Errorf("it leads with late caches (%v)", err)
		}
		release()
	}
	made("after")
	for call, want := range map[string]int{"create pods": 9, "create endpointslices": 3} { // ReplicaSets are made by name: a second try is none
		if n := api.Calls(call); n != want {
			t.Errorf("%s: %d, want %d", call, n, want)
		}
	}
}

func TestSelectRows(t *testing.T) {
	t.Parallel()
	all := 0
	for _, r := range table(&measures{}) {
		if !optional(r.name) {
			all++
		}
	}
	for _, c := range []struct {
		text string
		want func([]string) bool
		err  bool
	}{
		{text: "", want: func(n []string) bool { return len(n) == all }},
		{text: "*", want: func(n []string) bool { return len(n) == all }},
		{text: "*,-podgc", want: func(n []string) bool { return len(n) == all-1 }},
		{text: "-podgc,-namespace-controller", want: func(n []string) bool { return len(n) == all-2 }},
		{text: "deployment,+replicaset", want: func(n []string) bool { return fmt.Sprint(n) == "[deployment replicaset]" }},
		{text: "identity", want: func(n []string) bool {
			return fmt.Sprint(n) == "[serviceaccount rootca trustbundle accounttoken legacytoken csrsigning csrapproving csrcleaner podcertificatecleaner clusterroleaggregation]"
		}},
		{text: "nodes,-nodeipam", want: func(n []string) bool { return fmt.Sprint(n) == "[nodelifecycle nodettl tainteviction]" }},
		{text: "*,bootstrap-signer-controller,+tokencleaner", want: func(n []string) bool { return len(n) == all+2 }},
		{text: "*,-nosuch", err: true},
	} {
		rows, err := selectRows(table(&measures{}), c.text)
		if (err != nil) != c.err {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if !c.err && !c.want(names(rows)) {
			t.Errorf("%q selects %v", c.text, names(rows))
		}
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	t.Parallel()
	for _, cidr := range []string{"10.0.0.0", "10.0.0.0/16,10.1.0.0/16", "10.0.0.0/28", "fd00::/16"} {
		_, err := New(Config{Objects: object.NewClient(nil, "x"), Registerer: prometheus.NewRegistry(), ClusterCIDR: cidr})
		if err == nil {
			t.Errorf("cluster CIDR %q is accepted", cidr)
		}
	}
}
