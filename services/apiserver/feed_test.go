package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// begun opens a watch and returns it behind its first response.
func (f *fixture) begun(t testing.TB, req *apiv1.WatchRequest) grpc.ServerStreamingClient[apiv1.WatchResponse] {
	t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	t.Cleanup(cancel)
	stream, err := f.api.Watch(ctx, req)
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// untilThrough returns the events before the response that tells a revision, and that revision.
func untilThrough(t testing.TB, stream grpc.ServerStreamingClient[apiv1.WatchResponse]) (events []*apiv1.WatchEvent, through int64) {
	t.Helper()
	for {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if response.GetThrough() > 0 {
			if len(response.GetEvents()) > 0 {
				t.Error("a response with a revision has events too")
			}
			return events, response.GetThrough()
		}
		events = append(events, response.GetEvents()...)
	}
}

func feedOf(label string) *apiv1.WatchRequest {
	return &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", LabelSelector: label, SendInitialEvents: "false", ResourceVersionMatch: "NotOlderThan",
		AllowWatchBookmarks: true, Feed: true}
}

// A feed says where it begins before it tells of anything, also of what happened while it began.
func TestFeedsSayFirstWhereTheyBegin(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	since := at(f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"a","labels":{"in":"yes"}}}`)), "metadata", "resourceVersion").(string)
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"b","labels":{"in":"yes"}}}`))
	req := feedOf("in=yes")
	req.SendInitialEvents, req.ResourceVersionMatch, req.ResourceVersion = "", "", since
	feed := f.begun(t, req)
	if events, through := untilThrough(t, feed); len(events) > 0 || strconv.FormatInt(through, 10) != since {
		t.Errorf("the feed begins at %d, wanted at %s, with %d events before", through, since, len(events))
	}
	if response, err := feed.Recv(); err != nil || len(response.GetEvents()) != 1 || nameOf(t, response.GetEvents()[0]) != "b" {
		t.Errorf("%v %v", response, err)
	}
}

// Whoever joins a feed has every event once: those of its own stream, and those of the feed behind the revision that it is told.
func TestHandOverToAFeedMissesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	const writes, joiners = 300, 20
	feed := f.begun(t, feedOf("in=yes"))
	early, since := untilThrough(t, feed)
	if len(early) != 0 || since == 0 {
		t.Fatalf("the feed began at %d, with %d events before", since, len(early))
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := range writes {
			if _, err := f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":"c%03d","labels":{"in":"yes"}}}`, n)); err != nil {
				t.Error(err)
			}
		}
	})
	type joined struct {
		events  []*apiv1.WatchEvent
		through int64
	}
	all := make([]joined, joiners)
	var readers sync.WaitGroup
	for n := range all {
		readers.Go(func() {
			stream := f.begun(t, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", LabelSelector: "in=yes", ResourceVersion: strconv.FormatInt(since, 10), JoinAfter: since})
			all[n].events, all[n].through = untilThrough(t, stream)
		})
	}
	readers.Wait()
	writer.Wait()
	var fed []*apiv1.WatchEvent
	for len(fed) < writes {
		response, err := feed.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range response.GetEvents() {
			if e.GetType() != "BOOKMARK" {
				fed = append(fed, e)
			}
		}
	}
	for n, j := range all {
		if j.through < since {
			t.Errorf("watch %d was handed over at %d, before the feed began at %d", n, j.through, since)
		}
		names := []string{}
		for _, e := range j.events {
			if e.GetRevision() > j.through {
				t.Errorf("watch %d told of %d, and says that it told all up to %d", n, e.GetRevision(), j.through)
			}
			names = append(names, nameOf(t, e))
		}
		for _, e := range fed {
			if e.GetRevision() > j.through {
				names = append(names, nameOf(t, e))
			}
		}
		for i := range writes {
			if i >= len(names) || names[i] != fmt.Sprintf("c%03d", i) {
				t.Fatalf("watch %d had %d events, which are not the writes in their order: %v", n, len(names), names)
			}
		}
		if len(names) != writes {
			t.Errorf("watch %d had %d events of %d", n, len(names), writes)
		}
	}
}

// After its hand-over a watch is silent, and ends when its time is up.
func TestWatchThatWasHandedOver(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"before"}}`))
	stream := f.begun(t, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default", SendInitialEvents: "true", ResourceVersionMatch: "NotOlderThan",
		AllowWatchBookmarks: true, TimeoutSeconds: 3, JoinAfter: 1})
	events, through := untilThrough(t, stream)
	if len(events) != 2 || events[0].GetType() != "ADDED" || events[1].GetType() != "BOOKMARK" || through < events[1].GetRevision() {
		t.Fatalf("the initial state was %v, up to %d", events, through)
	}
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"after"}}`))
	if response, err := stream.Recv(); err != io.EOF {
		t.Errorf("after the hand-over came %v, %v", response, err)
	}
}

// A table hands over only once it has told its columns, which its feed leaves out.
func TestTableTellsItsColumnsBeforeTheHandOver(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	const accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
	columns := func(e *apiv1.WatchEvent) bool {
		var table struct{ ColumnDefinitions []any }
		if err := json.Unmarshal(e.GetObject(), &table); err != nil {
			t.Fatal(err)
		}
		return len(table.ColumnDefinitions) > 0
	}
	request := feedOf("")
	request.Accept = accept
	feed := f.begun(t, request)
	_, since := untilThrough(t, feed)
	stream := f.begun(t, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", ResourceVersion: strconv.FormatInt(since, 10), Accept: accept, JoinAfter: since})
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"first"}}`))
	events, through := untilThrough(t, stream)
	if len(events) != 1 || !columns(events[0]) || through < events[0].GetRevision() {
		t.Fatalf("before the hand-over at %d came %v", through, events)
	}
	response, err := feed.Recv()
	if err != nil || len(response.GetEvents()) != 1 || columns(response.GetEvents()[0]) {
		t.Fatalf("the feed told %v, %v", response, err)
	}
}

// Joining is no way around the checks of a watch, and what fails fails as it does without.
func TestJoiningAFeedIsCheckedLikeAnyWatch(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	for name, c := range map[string]struct {
		request *apiv1.WatchRequest
		want    string
	}{
		"selector": {&apiv1.WatchRequest{Version: "v1", Resource: "configmaps", LabelSelector: "in in in", JoinAfter: 1}, "unable to parse requirement"},
		"revision": {&apiv1.WatchRequest{Version: "v1", Resource: "configmaps", ResourceVersion: "x", JoinAfter: 1}, "resourceVersion"},
		"resource": {&apiv1.WatchRequest{Version: "v1", Resource: "nothings", JoinAfter: 1}, "could not find the requested resource"},
		"feed":     {&apiv1.WatchRequest{Version: "v1", Resource: "nothings", Feed: true}, "could not find the requested resource"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream, err := f.api.Watch(f.ctx, c.request)
			if err == nil {
				_, err = stream.Recv()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("failed with %v, wanted %q", err, c.want)
			}
		})
	}
}
