package flow

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/flow/fair"
)

func TestEstimate(t *testing.T) {
	t.Parallel()
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, tt := range []struct {
		seats, watches, most int
		want                 fair.Work
	}{
		{0, 0, 0, fair.Work{Seats: 1}},
		{30, 0, 0, fair.Work{Seats: 30}},
		{300, 0, 0, fair.Work{Seats: 100}},
		{30, 0, 7, fair.Work{Seats: 7}},
		{1, 9, 37, fair.Work{Seats: 1}},
		{1, 10, 37, fair.Work{Seats: 1, Final: 1, Linger: ms(5)}},
		{1, 95, 37, fair.Work{Seats: 1, Final: 10, Linger: ms(5)}},
		{1, 1000, 37, fair.Work{Seats: 1, Final: 10, Linger: ms(50)}},
		{1, 1000, 5, fair.Work{Seats: 1, Final: 5, Linger: ms(100)}},
		{1, 1000, 0, fair.Work{Seats: 1, Final: 10, Linger: ms(50)}},
	} {
		if got := estimate(tt.seats, tt.watches, tt.most); got != tt.want {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
}

func TestInterestedWatches(t *testing.T) {
	t.Parallel()
	var w watches
	for _, of := range []Watched{
		{Resource: "pods"}, {Resource: "pods", Namespace: "a"}, {Resource: "pods", Namespace: "a", Name: "p"}, {Resource: "pods", Namespace: "b"}, {Group: "g", Resource: "pods"},
	} {
		forget := w.add(of)
		defer forget()
		again := w.add(of)
		again()
		again()
	}
	for _, tt := range []struct {
		of   Watched
		want int
	}{
		{Watched{Resource: "pods", Namespace: "a", Name: "p"}, 3}, {Watched{Resource: "pods", Namespace: "a"}, 2}, {Watched{Resource: "pods", Namespace: "c", Name: "p"}, 1},
		{Watched{Group: "g", Resource: "pods", Namespace: "a"}, 1}, {Watched{Resource: "nodes", Name: "n"}, 0},
	} {
		if got := w.interested(tt.of); got != tt.want {
			t.Errorf("%+v: %d", tt.of, got)
		}
	}
}

// TestWritesThatManyWatch take seats for what they make others do, until that is done, and the metrics tell of it.
func TestWritesThatManyWatch(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(time.Now())
	registry := prometheus.NewRegistry()
	d := New(Config{Seats: 600, RequestTimeout: time.Hour, Clock: fake, Metrics: NewMetrics(registry)})
	d.Configure(everythingSet())
	jane := person("jane")
	var open []*Ticket
	for range 100 {
		watch, err := d.Enter(t.Context(), &Request{User: jane, Verb: "watch", Resource: "pods", Namespace: "a"})
		if err != nil {
			t.Fatal(err)
		}
		watch.Leave() // it has begun
		open = append(open, watch)
	}
	level := d.levels["global-default"]
	seats := func(want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); level.state().seats != want; time.Sleep(time.Millisecond) { // the fake clock calls in goroutines of its own
			if time.Now().After(deadline) {
				t.Fatalf("%+v, want %d seats", level.state(), want)
			}
		}
	}
	seats(0)
	write := &Request{User: jane, Verb: "update", Resource: "pods/status", Namespace: "a", Name: "p"}
	ticket, err := d.Enter(t.Context(), write)
	if err != nil {
		t.Fatal(err)
	}
	widest := int(level.widest.Load())
	if widest != 8 { // 49 seats of its own, of which one request may have 15 %
		t.Errorf("a request may have %d seats", widest)
	}
	seats(widest)
	fake.Step(time.Second)
	ticket.End()
	seats(widest)
	fake.Step(7 * time.Millisecond) // ten seats for 5 ms, on eight
	seats(0)
	metrics := map[string]*dto.MetricFamily{}
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range gathered {
		metrics[f.GetName()] = f
	}
	of := func(name string, labels map[string]string) *dto.Metric {
		t.Helper()
	next:
		for _, m := range metrics["apiserver_flowcontrol_"+name].GetMetric() {
			for _, l := range m.GetLabel() {
				if want, named := labels[l.GetName()]; named && want != l.GetValue() {
					continue next
				}
			}
			return m
		}
		t.Fatalf("there is no %s %v, but %v", name, labels, metrics["apiserver_flowcontrol_"+name])
		return nil
	}
	own := map[string]string{"priority_level": "global-default"}
	if r := of("current_r", own).GetGauge().GetValue(); r <= 0 {
		t.Errorf("R is %v", r)
	}
	for _, name := range []string{"dispatch_r", "latest_s", "next_s_bounds", "next_discounted_s_bounds"} {
		of(name, own)
	}
	if h := of("watch_count_samples", own).GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 100 {
		t.Errorf("watches were counted as %v", h)
	}
	for name, labels := range map[string]map[string]string{
		"priority_level_seat_utilization":    {"priority_level": "global-default", "phase": "executing"},
		"priority_level_request_utilization": {"priority_level": "global-default", "phase": "waiting"},
		"read_vs_write_current_requests":     {"phase": "executing", "request_kind": "mutating"},
		"demand_seats":                       own,
	} {
		if of(name, labels).GetHistogram().GetSampleCount() == 0 {
			t.Errorf("%s has no samples", name)
		}
	}
	for _, watch := range open {
		watch.End()
	}
	if n := d.watches.interested(write.watched()); n != 0 {
		t.Errorf("%d watches are left", n)
	}
	d.Configure(nil, []*flowcontrolv1.PriorityLevelConfiguration{})
}
