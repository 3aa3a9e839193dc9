package rpc_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// pair is two servers behind one connection that packs its calls.
type pair struct {
	conn    *grpc.ClientConn
	calls   [2]atomic.Int32 // that have come
	came    chan struct{}   // by each call, once it is counted
	streams [2]atomic.Int32
	held    atomic.Pointer[chan struct{}] // calls stay until it is closed
	holder  atomic.Int32                  // only those of this server; 2: of both
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{came: make(chan struct{}, 10_000)}
	p.holder.Store(2)
	dir := cluster(t)
	id := identity(t, dir, "apiserver")
	servers := manual.NewBuilderWithScheme("pair")
	var state resolver.State
	for n := range p.calls {
		address := overTLS(t, id, &service{
			get: func(ctx context.Context) error {
				p.calls[n].Add(1)
				select {
				case p.came <- struct{}{}:
				default: // nobody waits for so many
				}
				if held := p.held.Load(); held != nil && (p.holder.Load() == 2 || p.holder.Load() == int32(n)) {
					select {
					case <-*held:
					case <-ctx.Done():
					}
				}
				return nil
			},
			watch: func(context.Context) error { p.streams[n].Add(1); return nil },
		})
		state.Addresses = append(state.Addresses, resolver.Address{Addr: address})
	}
	servers.InitialState(state)
	conn, err := rpc.Dial("pair:///servers", identity(t, dir, "gateway").Client("apiserver"), append(rpc.Pack(), grpc.WithResolvers(servers))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p.conn = conn
	p.connected(t)
	return p
}

// connected returns once both servers have answered.
func (p *pair) connected(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); p.streams[0].Load() == 0 || p.streams[1].Load() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no connection to both servers")
		}
		p.stream(t)
	}
	p.calls[0].Store(0)
	p.calls[1].Store(0)
	p.streams[0].Store(0)
	p.streams[1].Store(0)
}

func (p *pair) stream(t *testing.T) {
	t.Helper()
	stream, err := apiv1.NewObjectServiceClient(p.conn).Watch(t.Context(), &apiv1.WatchRequest{}, grpc.WaitForReady(true))
	for err == nil {
		_, err = stream.Recv()
	}
}

// hold has the calls of a server stay, 2 of both, until what it returns is called.
func (p *pair) hold(t *testing.T, server int32) (release func()) {
	held := make(chan struct{})
	p.holder.Store(server)
	p.held.Store(&held)
	release = sync.OnceFunc(func() { p.held.Store(nil); close(held) })
	t.Cleanup(release)
	return release
}

// first is the server that has calls.
func (p *pair) first(t *testing.T) int32 {
	t.Helper()
	for range 50 {
		if err := call(t, p.conn); err != nil {
			t.Fatal(err)
		}
	}
	for n := range p.calls {
		if p.calls[n].Load() == 50 {
			p.calls[n].Store(0)
			return int32(n)
		}
	}
	t.Fatalf("calls one after the other went to both: %d and %d", p.calls[0].Load(), p.calls[1].Load())
	return 0
}

func TestFewCallsGoToOneServer(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	first := p.first(t)
	for range 10 {
		p.stream(t)
	}
	if a, b := p.streams[0].Load(), p.streams[1].Load(); a != 5 || b != 5 {
		t.Errorf("%d and %d streams, want as many at each", a, b)
	}

	for len(p.came) > 0 {
		<-p.came
	}
	release := p.hold(t, 2)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { _ = call(t, p.conn) })
	}
	late := time.After(time.Minute)
	for range 100 {
		select {
		case <-p.came:
		case <-late:
			t.Fatal("not all calls came")
		}
	}
	if a, b := p.calls[first].Load(), p.calls[1-first].Load(); a < 64 || a+b != 100 || b < 30 {
		t.Errorf("of 100 calls at a time %d are at the first server and %d at the other, want 64 and 36", a, b)
	}
	release()
	wg.Wait()
}

func TestCallsPassByAServerThatHangs(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	first := p.first(t)
	release := p.hold(t, first)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = apiv1.NewObjectServiceClient(p.conn).Get(ctx, &apiv1.GetRequest{}) })
	for deadline := time.Now().Add(time.Minute); p.calls[1-first].Load() < 20 && time.Now().Before(deadline); {
		short, done := context.WithTimeout(t.Context(), 2*time.Second)
		_, _ = apiv1.NewObjectServiceClient(p.conn).Get(short, &apiv1.GetRequest{})
		done()
	}
	if here, there := p.calls[first].Load(), p.calls[1-first].Load(); here > 10 || there < 20 {
		t.Errorf("%d calls went to the server that hangs and %d to the other", here, there)
	}
	for range 10 {
		p.stream(t)
	}
	if here, there := p.streams[first].Load(), p.streams[1-first].Load(); here > 0 || there != 10 {
		t.Errorf("%d streams went to the server that hangs and %d to the other", here, there)
	}
	release()
	wg.Wait()
	p.calls[0].Store(0)
	p.calls[1].Store(0)
	for deadline := time.Now().Add(time.Minute); p.calls[first].Load() < 10 && time.Now().Before(deadline); {
		_ = call(t, p.conn)
	}
	if p.calls[first].Load() < 10 {
		t.Error("the first server has no calls though it answers again")
	}
}
