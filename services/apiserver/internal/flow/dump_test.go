package flow

import (
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/authn"
)

func TestDump(t *testing.T) {
	t.Parallel()
	d := New(Config{Seats: 600, RequestTimeout: time.Minute, Clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), Metrics: NewMetrics(nil)})
	admin := &authn.User{Name: "root", Groups: []string{authn.MastersGroup, authn.AuthenticatedGroup}}
	jane := &authn.User{Name: "jane", Groups: []string{authn.AuthenticatedGroup}}
	var tickets []*Ticket
	for _, r := range []*Request{{User: admin, Verb: "get", Path: "/metrics"}, {User: jane, Verb: "update", Group: "apps", Version: "v1", Resource: "deployments/status", Namespace: "ns", Name: "web", Width: 3}} {
		ticket, err := d.Enter(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	dump := func(name, query string) string {
		t.Helper()
		body, contentType, err := d.Document("/debug/api_priority_and_fairness/"+name, query, "")
		if err != nil || contentType != "text/plain; charset=utf-8" {
			t.Fatal(err, contentType)
		}
		return string(body)
	}
	levels := dump("dump_priority_levels", "")
	for _, want := range []string{
		"PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests, ExecutingRequests, DispatchedRequests, RejectedRequests, TimedoutRequests, CancelledRequests\n",
		"exempt,            0,            false,  false,       0,               1,                 1,                  0,                0,                0\n",
	} {
		if !strings.Contains(levels, want) {
			t.Errorf("%q is not in\n%s", want, levels)
		}
	}
	if requests := dump("dump_requests", "includeRequestDetails=1"); !strings.Contains(requests, "2027-01-15T08:00:00Z") || !strings.Contains(requests, "jane,     update, /apis/apps/v1/namespaces/ns/deployments/web/status, ns,        web,    v1,         deployments, status") ||
		!strings.Contains(requests, "/metrics,") || strings.Count(requests, "\n") != 3 {
		t.Error(requests)
	}
	if queues := dump("dump_queues", ""); !strings.HasPrefix(queues, "PriorityLevelName, Index,") {
		t.Error(queues)
	}
	for _, ticket := range tickets {
		ticket.Leave()
	}
	if requests := dump("dump_requests", ""); strings.Count(requests, "\n") != 1 {
		t.Error(requests)
	}
	if levels := dump("dump_priority_levels", ""); !strings.Contains(levels, "exempt,            0,            false,  false,       0,               0,                 1,") {
		t.Error(levels)
	}
	for _, path := range []string{"/debug/api_priority_and_fairness/other", "/debug/pprof/", "/"} {
		if body, _, err := d.Document(path, "", ""); body != nil || err != nil {
			t.Errorf("%s: %s %v", path, body, err)
		}
	}
}
