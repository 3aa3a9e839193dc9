package apiserver

import (
	"fmt"
	"strings"
	"testing"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// What a watch begins with is told in the order of a list and whole, however many responses that takes; then its end, and then what comes.
func TestInitialEventsAreWholeAndInOrder(t *testing.T) {
	f := startMemory(t)
	const small, large = 1003, 3
	var names []string
	for n := range small {
		names = append(names, fmt.Sprintf("map-%04d", n))
		f.must(f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"set":""}}}`, names[n])))
	}
	for n := range large { // behind the others, and more than a response carries
		names = append(names, fmt.Sprintf("map-large-%d", n))
		f.must(f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"set":""}},"data":{"text":%q}}`, names[small+n], strings.Repeat("x", 900_000))))
	}
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"map-0000-unlabelled"}}`))
	for _, accept := range []string{"", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"} {
		stream, err := f.api.Watch(f.ctx, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default", LabelSelector: "set", Accept: accept,
			SendInitialEvents: "true", ResourceVersionMatch: "NotOlderThan", AllowWatchBookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		var kept []*apiv1.WatchResponse // nothing that was sent changes afterwards
		for events := 0; events <= len(names); {
			response, err := stream.Recv()
			if err != nil {
				t.Fatalf("after %d events: %v", events, err)
			}
			if n := len(response.GetEvents()); n > 1000 {
				t.Errorf("a response of %d events", n)
			}
			kept, events = append(kept, response), events+len(response.GetEvents())
		}
		var got []*apiv1.WatchEvent
		for _, response := range kept {
			got = append(got, response.GetEvents()...)
		}
		for n, name := range names {
			if e := got[n]; e.GetType() != "ADDED" || nameOf(t, e) != name {
				t.Fatalf("%s: event %d is %s of %s, not of %s", accept, n, e.GetType(), nameOf(t, e), name)
			}
		}
		if end := got[len(names)]; len(got) != len(names)+1 || end.GetType() != "BOOKMARK" || !strings.Contains(string(end.GetObject()), `"k8s.io/initial-events-end":"true"`) {
			t.Errorf("%s: %d events, the last %s %s", accept, len(got), end.GetType(), end.GetObject())
		}
		f.patch("v1/configmaps", "map-0007", fmt.Sprintf(`{"data":{"accept":%q}}`, accept))
		response, err := stream.Recv()
		if err != nil || len(response.GetEvents()) != 1 || response.GetEvents()[0].GetType() != "MODIFIED" {
			t.Errorf("%s: %v, %v", accept, response, err)
		}
	}
}
