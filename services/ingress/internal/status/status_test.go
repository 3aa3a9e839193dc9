package status

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/ingress/internal/route"
)

type points = []networkingv1.IngressLoadBalancerIngress

func TestAddresses(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(points{{IP: "192.0.2.1"}, {Hostname: "edge.example.com"}, {IP: "2001:db8::1"}}, Of([]string{"192.0.2.1", "edge.example.com", "2001:db8::1"})); diff != "" {
		t.Error(diff)
	}
	service := &corev1.Service{Spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.9"}}}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "edge.example.com"}}
	if diff := cmp.Diff(points{{IP: "192.0.2.1"}, {Hostname: "edge.example.com"}, {IP: "192.0.2.9"}}, OfService(service)); diff != "" {
		t.Error(diff)
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	ours, theirs := points{{IP: "192.0.2.1"}}, points{{IP: "198.51.100.1"}}
	for _, tt := range []struct {
		name            string
		have, addresses points
		mine, written   bool // by us
		want            points
		change          bool
	}{
		{"new", nil, ours, true, false, ours, true},
		{"as it should be", ours, ours, true, true, ours, false},
		{"moved", theirs, ours, true, true, ours, true},
		{"another's before", theirs, ours, true, false, ours, true},
		{"with ports", points{{IP: "192.0.2.1", Ports: []networkingv1.IngressPortStatus{{Port: 80}}}}, ours, true, false, ours, true},
		{"no longer ours", ours, ours, false, true, nil, true},
		{"no longer ours, and our address has changed", theirs, ours, false, true, nil, true},
		{"no longer ours, and another's already", theirs, ours, false, false, nil, false},
		{"never ours", nil, ours, false, false, nil, false},
		{"no address is known", ours, nil, true, true, nil, true},
		{"no address is known, and another's is there", theirs, nil, true, false, nil, false},
	} {
		i := &networkingv1.Ingress{}
		i.Status.LoadBalancer.Ingress = tt.have
		if tt.written {
			i.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: Manager, Subresource: "status", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`)}}}
		}
		got, change := plan(i, tt.mine, tt.addresses)
		if change != tt.change || change && !cmp.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v", tt.name, got, change)
		}
	}
}

// TestWriter follows an Ingress through leaders, addresses and classes.
func TestWriter(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	set := object.NewInformers(client)
	ingresses := object.InformerFor(set, object.Ingress)
	var mu sync.Mutex
	addresses, own := points{{IP: "192.0.2.1"}}, true
	w := NewWriter(Config{
		Ingresses: ingresses, Objects: object.For(client, object.Ingress), Clock: clock.RealClock{},
		Own:       func(*networkingv1.Ingress) bool { mu.Lock(); defer mu.Unlock(); return own },
		Addresses: func() points { mu.Lock(); defer mu.Unlock(); return addresses },
	})
	background, end := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { end(); wg.Wait() })
	wg.Go(func() { _ = set.Run(background) })
	resource := object.For(client, object.Ingress)
	i, err := resource.Create(t.Context(), &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
	if err != nil {
		t.Fatal(err)
	}
	w.All() // nobody leads: nothing happens
	becomes := func(want points) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			got, err := resource.Get(t.Context(), "shop", "web")
			if err != nil {
				t.Fatal(err)
			}
			if cmp.Equal(got.Status.LoadBalancer.Ingress, want) {
				return
			}
			changes, err := resource.Watch(ctx, "shop", metav1.ListOptions{ResourceVersion: got.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-changes.ResultChan():
				changes.Stop()
			case <-ctx.Done():
				t.Fatalf("the status has %v, want %v", got.Status.LoadBalancer.Ingress, want)
			}
		}
	}
	for range 2 { // terms
		if !set.Wait(t.Context()) {
			t.Fatal("no objects")
		}
		leading, depose := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(leading) }()
		becomes(addresses)
		depose()
		<-done
		mu.Lock()
		addresses = points{{IP: "192.0.2.2"}}
		mu.Unlock()
	}
	changes, err := resource.Watch(t.Context(), "shop", metav1.ListOptions{ResourceVersion: i.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	// Tries that were refused, since the informer did not show the last one yet, are not writes.
	var last *networkingv1.Ingress
	for n, want := range []points{{{IP: "192.0.2.1"}}, {{IP: "192.0.2.2"}}} {
		change := <-changes.ResultChan()
		if got, ok := change.Object.(*networkingv1.Ingress); !ok || !cmp.Equal(got.Status.LoadBalancer.Ingress, want) {
			t.Fatalf("write %d: %v, want %v", n, change.Object, want)
		}
		last = change.Object.(*networkingv1.Ingress)
	}
	if now, err := resource.Get(t.Context(), "shop", "web"); err != nil || now.ResourceVersion != last.ResourceVersion {
		t.Errorf("a third write: %v, %v", now, err)
	}
	if i.Status.LoadBalancer.Ingress != nil {
		t.Error("a new Ingress has an address")
	}
}

// recorder notes events.
type recorder chan string

func (r recorder) Event(o runtime.Object, kind, reason, message string) {
	r <- fmt.Sprintf("%s %s %s: %s", o.(metav1.Object).GetName(), kind, reason, message)
}
func (r recorder) Eventf(runtime.Object, string, string, string, ...any) { panic("not used") }
func (r recorder) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
	panic("not used")
}

func TestFaultsThatLastAreToldOnce(t *testing.T) {
	t.Parallel()
	events := make(recorder, 10)
	now := clocktesting.NewFakeClock(time.Unix(1000, 0))
	r := NewReporter(events, now)
	fault := func(name, reason string) route.Fault {
		return route.Fault{Object: &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}, Reason: reason, Message: "m"}
	}
	told := func() []string {
		out := []string{}
		for len(events) > 0 {
			out = append(out, <-events)
		}
		slices.Sort(out)
		return out
	}
	var state map[same]known
	var wait time.Duration
	step := func(after time.Duration, faults []route.Fault, want []string, wantWait time.Duration) {
		t.Helper()
		now.Step(after)
		r.Set(faults)
		state, wait = r.report(state)
		if diff := cmp.Diff(want, told()); diff != "" || wait != wantWait {
			t.Errorf("wait %v, want %v\n%s", wait, wantWait, diff)
		}
	}
	a, b := fault("a", "ServiceNotFound"), fault("b", "SecretNotFound")
	step(0, []route.Fault{a}, []string{}, grace)
	step(time.Second, []route.Fault{a, b}, []string{}, grace-time.Second)
	step(2*time.Second, []route.Fault{a, b}, []string{"a Warning ServiceNotFound: m"}, time.Second)
	step(0, []route.Fault{a}, []string{}, 0) // b was put right in time
	step(time.Hour, []route.Fault{a, b}, []string{}, grace)
	step(grace, []route.Fault{a, b}, []string{"b Warning SecretNotFound: m"}, 0)
	step(time.Hour, nil, []string{}, 0)
	step(0, []route.Fault{a}, []string{}, grace) // again, later: again an event
	step(grace, []route.Fault{a}, []string{"a Warning ServiceNotFound: m"}, 0)
}

func TestReporterWaitsByTheClock(t *testing.T) {
	t.Parallel()
	events := make(recorder, 10)
	now := clocktesting.NewFakeClock(time.Unix(1000, 0))
	r := NewReporter(events, now)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	r.Set([]route.Fault{{Object: &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, Reason: "X", Message: "m"}})
	for !now.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	now.Step(grace)
	select {
	case got := <-events:
		if got != "a Warning X: m" {
			t.Error(got)
		}
	case <-time.After(time.Minute):
		t.Error("no event")
	}
}
