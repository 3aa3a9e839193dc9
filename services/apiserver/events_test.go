package apiserver

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// TestEventsExpire: an Event goes when it has not been written for the TTL, watches are told, and nothing else goes.
func TestEventsExpire(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	f := startMemory(t, func(c *Config) { c.Clock, c.EventTTL = clock, 10*time.Minute })
	event := func(name string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q,"finalizers":["example.com/kept"]},"involvedObject":{"kind":"Pod","namespace":"default","name":"p"},"reason":"R","message":"m","type":"Normal"}`, name)
	}
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"stays"}}`))
	f.must(f.create("v1/events", "default", event("old")))
	w := f.open(t, &apiv1.WatchRequest{Group: "events.k8s.io", Version: "v1", Resource: "events", Namespace: "default"})
	if e := w.next(); e.GetType() != "ADDED" || nameOf(t, e) != "old" {
		t.Fatalf("%s %s", e.GetType(), e.GetObject())
	}
	deadline := time.Now().Add(time.Minute)
	for gone := false; !gone; {
		clock.Step(time.Minute)
		select {
		case e := <-w.events:
			if gone = e.GetType() == "DELETED"; !gone || nameOf(t, e) != "old" {
				t.Fatalf("%s %s", e.GetType(), e.GetObject())
			}
		case <-time.After(10 * time.Millisecond): // until the sweeper has come to wait for the clock
			if time.Now().After(deadline) {
				t.Fatal("the event stays")
			}
		}
	}
	if _, err := f.get("v1/events", "default", "old"); status(err).Code != 404 {
		t.Errorf("the event: %v", err)
	}
	f.must(f.get("v1/configmaps", "default", "stays"))
}
