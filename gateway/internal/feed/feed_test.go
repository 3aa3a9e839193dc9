package feed

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

const patience = time.Minute

// server is an API server whose watches a test plays.
type server struct {
	t     *testing.T
	calls chan *call
}

// call is one watch that a feed has opened.
type call struct {
	grpc.ClientStream
	ctx       context.Context
	request   *apiv1.WatchRequest
	responses chan *apiv1.WatchResponse
	end       chan error
}

func (s *server) Watch(ctx context.Context, req *apiv1.WatchRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[apiv1.WatchResponse], error) {
	c := &call{ctx: ctx, request: req, responses: make(chan *apiv1.WatchResponse), end: make(chan error, 1)}
	s.calls <- c
	return c, nil
}

func (c *call) Recv() (*apiv1.WatchResponse, error) {
	select {
	case r := <-c.responses:
		return r, nil
	default:
	}
	select {
	case r := <-c.responses:
		return r, nil
	case err := <-c.end:
		return nil, err
	case <-c.ctx.Done():
		return nil, status.FromContextError(c.ctx.Err()).Err()
	}
}

// next is the watch that is opened next.
func (s *server) next() *call {
	s.t.Helper()
	select {
	case c := <-s.calls:
		return c
	case <-time.After(patience):
		s.t.Fatal("no watch was opened")
		return nil
	}
}

func (c *call) say(t *testing.T, r *apiv1.WatchResponse) {
	t.Helper()
	select {
	case c.responses <- r:
	case <-time.After(patience):
		t.Fatal("nobody reads the watch")
	}
}

func (c *call) begin(t *testing.T, through int64) {
	c.say(t, &apiv1.WatchResponse{ContentType: "application/json"})
	c.say(t, &apiv1.WatchResponse{Through: through})
}

// tell sends events of the revisions in one response.
func (c *call) tell(t *testing.T, kind string, revisions ...int64) {
	t.Helper()
	r := &apiv1.WatchResponse{}
	for _, n := range revisions {
		r.Events = append(r.Events, &apiv1.WatchEvent{Type: kind, Object: []byte(strconv.FormatInt(n, 10)), Revision: n})
	}
	c.say(t, r)
}

// set runs a set until the test ends.
func set(t *testing.T, change func(*Config)) (*Set, *server) {
	api := &server{t: t, calls: make(chan *call, 100)}
	config := Config{Client: api, Most: 10, Framer: func(string) Frame {
		return func(to []byte, eventType string, object []byte) []byte {
			return append(append(append(append(to, eventType...), ' '), object...), ';')
		}
	}}
	if change != nil {
		change(&config)
	}
	s := New(config)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { defer close(ran); s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ran })
	return s, api
}

// await looks until something that nothing tells of has come true.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func pods() *apiv1.WatchRequest {
	return &apiv1.WatchRequest{Version: "v1", Resource: "pods", Accept: "application/json"}
}

// enter enters in the background, and returns what comes of it.
func enter(t *testing.T, s *Set, req *apiv1.WatchRequest) func() *Follower {
	t.Helper()
	type entered struct {
		follower *Follower
		leave    func()
	}
	came := make(chan entered, 1)
	go func() {
		follower, leave := s.Enter(t.Context(), req)
		came <- entered{follower, leave}
	}()
	return func() *Follower {
		t.Helper()
		select {
		case e := <-came:
			t.Cleanup(e.leave)
			return e.follower
		case <-time.After(patience):
			t.Fatal("Enter does not return")
			return nil
		}
	}
}

// read takes until it has so many bytes, or all there is.
func read(t *testing.T, w *Follower, want string) {
	t.Helper()
	got := ""
	for len(got) < len(want) {
		select {
		case <-w.Ready():
		case <-time.After(patience):
			t.Fatalf("%q came, and then nothing; wanted %q", got, want)
		}
		frames, over := w.Take(nil)
		for _, b := range frames {
			got += string(b)
		}
		if over {
			got += "over"
		}
	}
	if got != want {
		t.Fatalf("%q came, wanted %q", got, want)
	}
}

func TestTheFirstWatchesAlone(t *testing.T) {
	t.Parallel()
	s, api := set(t, nil)
	if first := enter(t, s, pods())(); first != nil {
		t.Error("the first follows a feed")
	}
	other := pods()
	other.Accept = "application/cbor"
	if enter(t, s, other)() != nil {
		t.Error("the first of another encoding follows a feed")
	}
	second, third := enter(t, s, pods()), enter(t, s, pods())
	feed := api.next()
	if r := feed.request; !r.Feed || !r.AllowWatchBookmarks || r.Resource != "pods" || r.ResourceVersion != "" || r.SendInitialEvents != "false" {
		t.Errorf("the feed asked for %v", r)
	}
	if md, _ := metadata.FromOutgoingContext(feed.ctx); !slices.Equal(md.Get("howdah-user"), []string{"howdah:gateway"}) {
		t.Errorf("the feed speaks as %v", md)
	}
	feed.begin(t, 7)
	if a, b := second(), third(); a == nil || b == nil || a.From() != 7 || b.From() != 7 {
		t.Fatalf("the others follow %v and %v", a, b)
	}
	if len(api.calls) != 0 {
		t.Error("there is more than one feed")
	}
}

// follower is one who follows a feed that begins at revision 7.
func follower(t *testing.T, s *Set, api *server, req *apiv1.WatchRequest) (*Follower, *call) {
	t.Helper()
	_ = enter(t, s, req)()
	second := enter(t, s, req)
	feed := api.next()
	feed.begin(t, 7)
	w := second()
	if w == nil {
		t.Fatal("nobody follows")
	}
	return w, feed
}

func TestAFollowerIsToldWhatItHasNotHad(t *testing.T) {
	t.Parallel()
	s, api := set(t, nil)
	marked := pods()
	marked.AllowWatchBookmarks = true
	w, feed := follower(t, s, api, marked)
	plain := enter(t, s, pods())()
	feed.tell(t, "ADDED", 8, 9, 10)
	feed.tell(t, "BOOKMARK", 11)
	feed.tell(t, "MODIFIED", 12)
	feed.tell(t, "BOOKMARK", 12) // says nothing new
	feed.tell(t, "DELETED", 13)
	w.Join(9)
	read(t, w, "ADDED 10;BOOKMARK 11;MODIFIED 12;DELETED 13;")
	plain.Join(7)
	read(t, plain, "ADDED 8;ADDED 9;ADDED 10;MODIFIED 12;DELETED 13;")
	late := enter(t, s, pods())()
	if late.From() != 13 {
		t.Errorf("who comes late follows from %d", late.From())
	}
	late.Join(14)
	feed.tell(t, "ADDED", 14)
	feed.tell(t, "ADDED", 15)
	read(t, late, "ADDED 15;")
	if got, sent := testutil.ToFloat64(s.metrics.received), testutil.ToFloat64(s.metrics.sent); got != 7 || sent != 9 {
		t.Errorf("%v events came and %v went", got, sent)
	}
}

func TestAFeedGoesOnAtAnotherAPIServer(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"connection lost": status.Error(codes.Unavailable, "transport is closing"),
		"server stopped":  io.EOF,
		"too busy":        apistatus.ToGRPC(apierrors.NewTooManyRequests("later", 1)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, api := set(t, nil)
			w, feed := follower(t, s, api, pods())
			w.Join(7)
			feed.tell(t, "ADDED", 8, 9)
			feed.end <- end
			again := api.next()
			if again.request.ResourceVersion != "9" || again.request.SendInitialEvents != "" || !again.request.Feed {
				t.Fatalf("it went on with %v", again.request)
			}
			again.end <- end // and that one as well
			again = api.next()
			again.begin(t, 9)
			again.tell(t, "ADDED", 9, 10) // one that was told is not told again
			read(t, w, "ADDED 8;ADDED 9;ADDED 10;")
		})
	}
}

func TestWhatEndsAFeedEndsItsFollowers(t *testing.T) {
	t.Parallel()
	gone := apistatus.ToGRPC(apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, ""))
	s, api := set(t, nil)
	w, feed := follower(t, s, api, pods())
	w.Join(7)
	feed.tell(t, "ADDED", 8)
	feed.end <- gone
	read(t, w, "ADDED 8;over")
	// Who comes then begins a new one.
	next := enter(t, s, pods())
	feed = api.next()
	if feed.request.ResourceVersion != "" {
		t.Errorf("the new feed begins at %s", feed.request.ResourceVersion)
	}
	feed.begin(t, 20)
	if w := next(); w == nil || w.From() != 20 {
		t.Errorf("the next follows %v", w)
	}
}

// An ERROR may be the end of one API server's cache: the log may still have what follows. One that comes again is told.
func TestAnErrorIsTriedAgainOnce(t *testing.T) {
	t.Parallel()
	s, api := set(t, nil)
	w, feed := follower(t, s, api, pods())
	w.Join(7)
	feed.tell(t, "ERROR", 0)
	again := api.next()
	again.begin(t, 7)
	again.tell(t, "ADDED", 8)
	again.tell(t, "ERROR", 0)
	api.next().tell(t, "ERROR", 0)
	read(t, w, "ADDED 8;ERROR 0;over")
}

func TestWhoCannotHaveAFeedWatchesAlone(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		s, api := set(t, nil)
		_ = enter(t, s, pods())()
		second := enter(t, s, pods())
		api.next().end <- apistatus.ToGRPC(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no")))
		if second() != nil {
			t.Error("it follows a feed that was refused")
		}
		if enter(t, s, pods())() != nil || len(api.calls) != 0 {
			t.Error("the next tries again at once")
		}
	})
	t.Run("an older API server", func(t *testing.T) {
		t.Parallel()
		s, api := set(t, nil)
		_ = enter(t, s, pods())()
		second := enter(t, s, pods())
		feed := api.next()
		feed.say(t, &apiv1.WatchResponse{ContentType: "application/json"})
		feed.tell(t, "ADDED", 8)
		if second() != nil {
			t.Error("it follows what is no feed")
		}
	})
	t.Run("bounded", func(t *testing.T) {
		t.Parallel()
		s, api := set(t, func(c *Config) { c.Most = 1 })
		_, _ = follower(t, s, api, pods())
		other := pods()
		other.Namespace = "n"
		for range 2 {
			if enter(t, s, other)() != nil || len(api.calls) != 0 {
				t.Error("there is another feed")
			}
		}
	})
	t.Run("switched off", func(t *testing.T) {
		t.Parallel()
		s, api := set(t, func(c *Config) { c.Most = 0 })
		for range 2 {
			if enter(t, s, pods())() != nil || len(api.calls) != 0 {
				t.Error("there is a feed")
			}
		}
	})
}

func TestASlowFollowerIsCutOffAndNoOther(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]func(*Config){
		"events": func(c *Config) { c.MaxEvents = 3000 },
		"bytes":  func(c *Config) { c.MaxBytes = 30_000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, api := set(t, bound)
			slow, feed := follower(t, s, api, pods())
			quick := enter(t, s, pods())()
			slow.Join(7)
			quick.Join(7)
			for n := int64(8); testutil.ToFloat64(s.metrics.slow) == 0; n++ {
				if n > 20_000 {
					t.Fatal("nobody was cut off")
				}
				feed.tell(t, "ADDED", n)
				read(t, quick, "ADDED "+strconv.FormatInt(n, 10)+";")
			}
			if frames, over := slow.Take(nil); len(frames) != 0 || !over {
				t.Errorf("the slow one still took %d frames", len(frames))
			}
		})
	}
}

func TestAnIdleFeedEnds(t *testing.T) {
	t.Parallel()
	s, api := set(t, func(c *Config) { c.Linger = time.Millisecond })
	_ = enter(t, s, pods())()
	came := make(chan func(), 1)
	go func() { _, leave := s.Enter(t.Context(), pods()); came <- leave }()
	feed := api.next()
	feed.begin(t, 7)
	(<-came)()
	select {
	case <-feed.ctx.Done():
	case <-time.After(patience):
		t.Fatal("the feed that nobody follows stands on")
	}
	await(t, "nothing is left", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.feeds) == 0 && testutil.ToFloat64(s.metrics.feeds) == 0
	})
}

func TestAFeedThatIsFollowedAgainStays(t *testing.T) {
	t.Parallel()
	s, api := set(t, func(c *Config) { c.Linger = time.Hour })
	_ = enter(t, s, pods())()
	came := make(chan func(), 1)
	go func() { _, leave := s.Enter(t.Context(), pods()); came <- leave }()
	feed := api.next()
	feed.begin(t, 7)
	(<-came)()
	if w := enter(t, s, pods())(); w == nil || feed.ctx.Err() != nil || len(api.calls) != 0 {
		t.Error("the feed was not found again")
	}
}

// The gateway serves as soon as it runs, whichever of its goroutines comes first.
func TestWhoComesBeforeRunShares(t *testing.T) {
	t.Parallel()
	api := &server{t: t, calls: make(chan *call, 100)}
	s := New(Config{Client: api, Most: 10, Framer: func(string) Frame { return nil }})
	_ = enter(t, s, pods())()
	second := enter(t, s, pods())
	api.next().begin(t, 7)
	if second() == nil {
		t.Error("the second watches alone")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx) // ends the feed, or does not return
	if enter(t, s, pods())() != nil || len(api.calls) != 0 {
		t.Error("a feed begins after the end")
	}
}

// Many follow, come and go while events come in pieces of all sizes, and the API server is lost now and then.
func TestFollowersMissAndRepeatNothing(t *testing.T) {
	t.Parallel()
	s, api := set(t, nil)
	_, feed := follower(t, s, api, pods())
	const last = 3000
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			w, leave := s.Enter(t.Context(), pods())
			defer leave()
			from := w.From() + int64(n%5)
			w.Join(from)
			for from < last {
				select {
				case <-w.Ready():
				case <-time.After(patience):
					t.Errorf("nothing follows %d", from)
					return
				}
				frames, over := w.Take(nil)
				if over {
					t.Errorf("over after %d", from)
					return
				}
				for _, b := range frames {
					for len(b) > 0 {
						want := "E " + strconv.FormatInt(from+1, 10) + ";"
						if len(b) < len(want) || string(b[:len(want)]) != want {
							t.Errorf("%q follows %d", b, from)
							return
						}
						b, from = b[len(want):], from+1
					}
				}
			}
		})
	}
	for n := int64(8); n <= last; {
		if n%500 == 0 {
			feed.end <- status.Error(codes.Unavailable, "lost")
			feed = api.next()
			feed.begin(t, n-1)
		}
		var some []int64
		for range 1 + n%4 {
			some = append(some, n)
			n++
		}
		feed.tell(t, "E", some...)
	}
	all.Wait()
}
