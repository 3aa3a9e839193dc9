package flow

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"howdah.dev/services/apiserver/internal/authn"
)

func person(name string, groups ...string) *authn.User {
	return &authn.User{Name: name, Groups: append(groups, "system:authenticated")}
}

func everythingSet() ([]*flowcontrolv1.FlowSchema, []*flowcontrolv1.PriorityLevelConfiguration) {
	m, s := Mandatory(), Suggested()
	return append(m.Schemas, s.Schemas...), append(m.Levels, s.Levels...)
}

func newDispatcher(seats int) *Dispatcher {
	d := New(Config{Seats: seats, RequestTimeout: time.Minute, Clock: clock.RealClock{}, Metrics: NewMetrics(nil)})
	d.Configure(everythingSet())
	return d
}

func TestClassify(t *testing.T) {
	t.Parallel()
	d := newDispatcher(600)
	get := func(u *authn.User, group, resource, namespace string) Request {
		return Request{User: u, Verb: "get", Group: group, Resource: resource, Namespace: namespace}
	}
	for _, tt := range []struct {
		name          string
		request       Request
		schema, level string
	}{
		{"administrator", get(person("admin", "system:masters"), "", "pods", "a"), "exempt", "exempt"},
		{"probe of nobody", Request{User: &authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}, Verb: "get", Path: "/healthz"}, "probes", "exempt"},
		{"another path of nobody", Request{User: &authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}, Verb: "get", Path: "/healthz/x"}, "global-default", "global-default"},
		{"scheduler", get(person("system:kube-scheduler"), "", "pods", "a"), "kube-scheduler", "workload-high"},
		{"scheduler's lease", get(person("system:kube-scheduler"), "coordination.k8s.io", "leases", "kube-system"), "system-leader-election", "leader-election"},
		{"controllers", get(person("system:kube-controller-manager"), "apps", "deployments", "a"), "kube-controller-manager", "workload-high"},
		{"controllers' endpoints", get(person("system:kube-controller-manager"), "", "endpoints", "a"), "kube-controller-manager", "workload-high"},
		{"node's own status", get(person("system:node:a", "system:nodes"), "", "nodes/status", ""), "system-node-high", "node-high"},
		{"node's heartbeat", get(person("system:node:a", "system:nodes"), "coordination.k8s.io", "leases", "kube-node-lease"), "system-node-high", "node-high"},
		{"node's pods", get(person("system:node:a", "system:nodes"), "", "pods", "a"), "system-nodes", "system"},
		{"service account of the system", get(person("system:serviceaccount:kube-system:x", "system:serviceaccounts"), "", "pods", "a"), "kube-system-service-accounts", "workload-high"},
		{"service account", get(person("system:serviceaccount:a:x", "system:serviceaccounts"), "", "pods", "a"), "service-accounts", "workload-low"},
		{"person", get(person("jane"), "", "pods", "a"), "global-default", "global-default"},
		{"one in no group", get(&authn.User{Name: "x"}, "", "pods", "a"), "catch-all", "catch-all"},
	} {
		s := d.classify(&tt.request)
		if s.object.Name != tt.schema || s.level.name != tt.level {
			t.Errorf("%s: %s in %s, want %s in %s", tt.name, s.object.Name, s.level.name, tt.schema, tt.level)
		}
	}
}

func TestSchemaWithoutLevelIsPassedOver(t *testing.T) {
	t.Parallel()
	d := New(Config{Seats: 10, RequestTimeout: time.Minute, Clock: clock.RealClock{}, Metrics: NewMetrics(nil)})
	spec := Suggested().Schemas[len(Suggested().Schemas)-1].Spec
	d.Configure([]*flowcontrolv1.FlowSchema{{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: spec}}, nil)
	if s := d.classify(&Request{User: person("jane"), Verb: "get", Resource: "pods", Namespace: "a"}); s.object.Name != "catch-all" {
		t.Error(s.object.Name)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	tests := []struct {
		name   string
		total  float64
		claims []claim
		want   []float64
	}{
		{"nobody wants anything: all is lent in proportion", 100, []claim{{10, 50, 100, 0}, {50, 50, 100, 0}}, []float64{16.7, 83.3}},
		{"one wants all and gets what the other lends", 100, []claim{{10, 50, 100, 200}, {20, 50, 100, 0}}, []float64{80, 20}},
		{"both want all", 100, []claim{{10, 50, 100, 300}, {20, 50, 100, 300}}, []float64{50, 50}},
		{"a limit to borrowing", 100, []claim{{10, 50, 60, 300}, {20, 50, inf, 0}}, []float64{60, 40}},
	}
	for _, tt := range tests {
		got, _ := share(tt.total, tt.claims)
		for i := range got {
			if math.Abs(got[i]-tt.want[i]) > 0.1 {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
				break
			}
		}
	}
}

// TestShareKeepsItsPromises holds the division to what must be true whatever the claims are.
func TestShareKeepsItsPromises(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		const total = 600
		var claims []claim
		left := float64(total)
		for left > 1 {
			nominal := math.Ceil(random.Float64() * left)
			left -= nominal
			least := math.Round(nominal * random.Float64())
			claims = append(claims, claim{least, nominal, math.Min(total, nominal*(1+3*random.Float64())), random.Float64() * 2 * nominal * float64(random.IntN(4))})
		}
		got, _ := share(total, claims)
		sum := 0.0
		for i, c := range claims {
			sum += got[i]
			if got[i] < c.least-1e-6 || got[i] > math.Max(c.most, c.least)+1e-6 {
				t.Fatalf("%+v got %v", c, got[i])
			}
			if got[i] < math.Min(c.nominal, c.demand)-1e-6 {
				t.Fatalf("%+v got %v, less than is its own", c, got[i])
			}
		}
		if sum > total+1e-3 {
			t.Fatalf("%v seats of %v are given out", sum, total)
		}
	}
}

// TestSeatsAndQueue fills a level: the next one waits, is let in when somebody leaves, and is refused when the queue is full.
func TestSeatsAndQueue(t *testing.T) {
	t.Parallel()
	d := New(Config{Seats: 2, RequestTimeout: time.Hour, Clock: clock.RealClock{}, Metrics: NewMetrics(nil)})
	level := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "l", UID: "level-uid"}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementLimited,
		Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: ptr.To[int32](100), BorrowingLimitPercent: ptr.To[int32](0),
			LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 1}}},
	}}
	schema := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "schema-uid"}, Spec: Suggested().Schemas[len(Suggested().Schemas)-1].Spec}
	schema.Spec.PriorityLevelConfiguration.Name = "l"
	d.Configure([]*flowcontrolv1.FlowSchema{schema}, []*flowcontrolv1.PriorityLevelConfiguration{level})
	r := &Request{User: person("jane"), Verb: "get", Resource: "pods", Namespace: "a"}
	var tickets []*Ticket
	for range 2 {
		ticket, err := d.Enter(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	if tickets[0].SchemaUID != "schema-uid" || tickets[0].LevelUID != "level-uid" {
		t.Errorf("%+v", tickets[0])
	}
	third := make(chan error, 1)
	go func() {
		ticket, err := d.Enter(t.Context(), r)
		ticket.Leave()
		third <- err
	}()
	state := tickets[0].seat.level
	for deadline := time.Now().Add(time.Minute); state.state().waiting == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the third does not wait")
		}
		time.Sleep(time.Millisecond)
	}
	if ticket, err := d.Enter(t.Context(), r); !apierrors.IsTooManyRequests(err) || ticket.SchemaUID != "schema-uid" {
		t.Fatalf("a full queue: %v", err)
	} else if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != 1 || err.Error() != "Too many requests, please try again later." {
		t.Errorf("%v, retry after %d", err, seconds)
	}
	tickets[0].Leave()
	tickets[0].Leave() // a second time does nothing
	if err := <-third; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := d.Enter(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := d.Enter(ctx, r); !apierrors.IsTooManyRequests(err) {
		t.Errorf("who has gone: %v", err)
	}
	if s := state.state(); s.seats != 2 || s.waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// TestBorrowing lets one level take all that is lent, and another want its own back.
func TestBorrowing(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(time.Now())
	d := New(Config{Seats: 245, RequestTimeout: time.Hour, Clock: fake, Metrics: NewMetrics(nil)})
	d.Configure(everythingSet())
	low := &Request{User: person("system:serviceaccount:a:x", "system:serviceaccounts"), Verb: "get", Resource: "pods", Namespace: "a"}
	flood, stop := context.WithCancel(t.Context())
	defer stop()
	gone := make(chan struct{}, 400)
	for range 300 {
		go func() { _, _ = d.Enter(flood, low); gone <- struct{}{} }()
	}
	level := d.levels["workload-low"]
	await := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); {
			if time.Now().After(deadline) {
				t.Fatalf("it never happens: %s: %+v", what, level.state())
			}
			d.mu.Lock()
			d.adjust()
			d.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
	}
	// 245 seats are one a share; of the others' 145, 50 are lent.
	await("it borrows", func() bool { return level.state().seats == 150 })
	ticket, err := d.Enter(t.Context(), &Request{User: person("jane"), Verb: "get", Resource: "pods", Namespace: "a"})
	if err != nil {
		t.Fatal("the flood of one level reaches another:", err)
	}
	ticket.Leave()
	stop()
}

func TestConditionsAndUpkeep(t *testing.T) {
	t.Parallel()
	now := time.Now()
	items, err := writes(Objects{}, now)
	if err != nil || len(items) != len(Mandatory().Levels)+len(Mandatory().Schemas)+len(Suggested().Levels)+len(Suggested().Schemas) {
		t.Fatalf("%d writes on an empty cluster, %v", len(items), err)
	}
	var have Objects
	have.Schemas, have.Levels = everythingSet()
	for _, s := range have.Schemas {
		annotated(s, true)
	}
	for _, l := range have.Levels {
		annotated(l, true)
	}
	if items, _ = writes(have, now); len(items) != len(have.Schemas) || items[0].GetPatch().GetSubresource() != "status" {
		t.Fatalf("%d conditions are written: %v", len(items), items)
	}
	for _, s := range have.Schemas {
		s.Status.Conditions = []flowcontrolv1.FlowSchemaCondition{*dangling(s, true, now)}
	}
	if items, _ = writes(have, now.Add(time.Hour)); len(items) != 0 {
		t.Fatalf("what stands is written again: %v", items)
	}
	have.Levels[0].Spec.Exempt.NominalConcurrencyShares = ptr.To[int32](7) // of exempt, an administrator may
	level := have.Levels[len(have.Levels)-1]
	level.Spec.Limited.NominalConcurrencyShares = ptr.To[int32](99)
	if items, _ = writes(have, now); len(items) != 1 || items[0].GetUpdate().GetName() != level.Name {
		t.Fatalf("a suggested level that says it is kept: %v", items)
	}
	annotated(level, false)
	if items, _ = writes(have, now); len(items) != 0 {
		t.Fatalf("a suggested level that says it is not kept: %v", items)
	}
	delete(level.Annotations, flowcontrolv1.AutoUpdateAnnotationKey)
	level.Generation = 2
	if items, _ = writes(have, now); len(items) != 1 {
		t.Fatalf("a suggested level that was changed and does not say: %v", items)
	}
	annotated(level, false)
	have.Schemas[5].Spec.PriorityLevelConfiguration.Name = "missing"
	annotated(have.Schemas[5], false)
	if items, _ = writes(have, now); len(items) != 1 || items[0].GetPatch().GetSubresource() != "status" {
		t.Fatalf("a dangling schema: %v", items)
	}
}

func BenchmarkEnter(b *testing.B) {
	d := newDispatcher(600)
	for _, bench := range []struct {
		name string
		user *authn.User
	}{{"exempt", person("admin", "system:masters")}, {"person", person("jane")}, {"account", person("system:serviceaccount:a:b", "system:serviceaccounts")}} {
		b.Run(bench.name, func(b *testing.B) {
			r := &Request{User: bench.user, Verb: "get", Resource: "pods", Namespace: "a"}
			b.ReportAllocs()
			for b.Loop() {
				ticket, err := d.Enter(b.Context(), r)
				if err != nil {
					b.Fatal(err)
				}
				ticket.Leave()
			}
		})
	}
}
