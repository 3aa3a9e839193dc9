package flow

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// dumpPath is where the tables are.
const dumpPath = "/debug/api_priority_and_fairness/"

// Document implements discovery.Documents: the tables that Kubernetes has for looking into priority levels, their queues and the
// requests that wait or run. They tell of this API server only.
func (d *Dispatcher) Document(path, query, _ string) (body []byte, contentType string, err error) {
	name, ok := strings.CutPrefix(path, dumpPath)
	if !ok || d == nil {
		return nil, "", nil
	}
	var rows [][]string
	switch name {
	case "dump_priority_levels":
		rows = d.dumpLevels()
	case "dump_queues":
		rows = d.dumpQueues()
	case "dump_requests":
		options, _ := url.ParseQuery(query) // what does not parse asks for nothing
		rows = d.dumpRequests(options.Has("includeRequestDetails"))
	default:
		return nil, "", nil
	}
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 8, 0, 1, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, ",\t"))
	}
	err = table.Flush()
	return text.Bytes(), "text/plain; charset=utf-8", err
}

// all returns the levels by name, each locked while f looks at it.
func (d *Dispatcher) all(f func(name string, l *level)) {
	d.follow()
	d.mu.Lock()
	levels := maps.Clone(d.levels)
	d.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		l := levels[name]
		l.mu.Lock()
		f(name, l)
		l.mu.Unlock()
	}
}

func (d *Dispatcher) dumpLevels() [][]string {
	rows := [][]string{{"PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests", "DispatchedRequests",
		"RejectedRequests", "TimedoutRequests", "CancelledRequests"}}
	d.all(func(name string, l *level) {
		waiting, running, active := l.queues.Waiting(), 0, 0
		for who := range l.present {
			if !who.started.IsZero() {
				running++
			}
		}
		for _, q := range l.queues.Looks() {
			if q.Waiting > 0 {
				active++
			}
		}
		// An exempt level is never idle: it has no queues to tell.
		rows = append(rows, []string{name, fmt.Sprint(active), fmt.Sprint(!l.exempt && waiting+running == 0), "false", fmt.Sprint(waiting), fmt.Sprint(running),
			fmt.Sprint(l.total.dispatched), fmt.Sprint(l.total.rejected), fmt.Sprint(l.total.timedOut), fmt.Sprint(l.total.cancelled)})
	})
	return rows
}

func (d *Dispatcher) dumpQueues() [][]string {
	rows := [][]string{{"PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR", "InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum"}}
	d.all(func(name string, l *level) {
		if l.exempt {
			return
		}
		wanted := map[int]int{}
		for who := range l.present {
			if who.started.IsZero() {
				wanted[l.queues.Queue(who.fair)] += who.work.Width()
			}
		}
		for i, q := range l.queues.Looks() {
			rows = append(rows, []string{name, fmt.Sprint(i), fmt.Sprint(q.Waiting), fmt.Sprint(q.Running), fmt.Sprint(q.Seats), fmt.Sprintf("%.8fss", q.Virtual),
				fmt.Sprint(wanted[i]), fmt.Sprint(wanted[i]), fmt.Sprintf("%.8fss", 0.0)})
		}
	})
	return rows
}

func (d *Dispatcher) dumpRequests(details bool) [][]string {
	header := []string{"PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime", "InitialSeats", "FinalSeats",
		"AdditionalLatency", "StartTime"}
	if details {
		header = append(header, "UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
	}
	rows := [][]string{header}
	methods := map[string]flowcontrolv1.FlowDistinguisherMethodType{}
	for _, s := range d.current.Load().schemas {
		if m := s.object.Spec.DistinguisherMethod; m != nil {
			methods[s.object.Name] = m.Type
		}
	}
	d.all(func(name string, l *level) {
		present := slices.SortedFunc(maps.Keys(l.present), func(a, b *presence) int { return cmp.Compare(a.arrived.UnixNano(), b.arrived.UnixNano()) })
		for _, who := range present {
			queue, place := -1, -1
			if who.fair != nil {
				queue, place = l.queues.Queue(who.fair), l.queues.Place(who.fair)
			}
			row := []string{name, who.schema, fmt.Sprint(queue), fmt.Sprint(place), who.distinguished(methods[who.schema]), told(who.arrived), fmt.Sprint(who.work.Seats), fmt.Sprint(who.work.Final), fmt.Sprint(who.work.Linger), told(who.started)}
			if details {
				resource, subresource, _ := strings.Cut(who.request.Resource, "/")
				row = append(row, who.request.User.Name, who.request.Verb, who.request.path(), who.request.Namespace, who.request.Name, who.request.Version, resource, subresource)
			}
			rows = append(rows, row)
		}
	})
	return rows
}

// path is the URL's, without its query.
func (r *Request) path() string {
	if r.Path != "" {
		return r.Path
	}
	path := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		path = "/api/" + r.Version
	}
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	if r.Namespace != "" && resource != "namespaces" {
		path += "/namespaces/" + r.Namespace
	}
	for _, part := range []string{resource, r.Name, subresource} {
		if part != "" {
			path += "/" + part
		}
	}
	return path
}

// distinguished is what tells the request's flow from others of its schema.
func (p *presence) distinguished(by flowcontrolv1.FlowDistinguisherMethodType) string {
	switch by {
	case flowcontrolv1.FlowDistinguisherMethodByUserType:
		return p.request.User.Name
	case flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
		return p.request.Namespace
	}
	return ""
}

func told(t time.Time) string {
	if t.IsZero() {
		return "0001-01-01T00:00:00Z"
	}
	return t.UTC().Format(time.RFC3339Nano)
}
