package rpc

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
)

const (
	packPolicy = "howdah_pack"
	// packCalls is how many calls are under way at one server before others get some. One that is not at its limit answers in a millisecond
	// or few, so that it has tens of thousands of calls a second by then.
	packCalls = 64
	// packPatience is how long a server that has calls may answer none before others are preferred.
	packPatience = time.Second
)

// Pack has a connection's unary calls go to one of the servers while these are few, and only what is more to the others: servers commit and confirm
// together what they have at a time, and share it with each other at a cost. Which one comes first is each process' own choice. A server that
// answers nothing for a second comes last, until it does. Streams, which may be long, are spread evenly over those that answer.
func Pack() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"` + packPolicy + `":{}}]}`),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return streamer(context.WithValue(ctx, spreadKey{}, true), desc, cc, method, opts...)
		}),
	}
}

// spreadKey marks the context of a stream.
type spreadKey struct{}

func init() {
	balancer.Register(base.NewBalancerBuilder(packPolicy, packers{maphash.MakeSeed()}, base.Config{}))
}

// packers builds a picker whenever servers come or go. What is under way then at those that stay is not counted by it.
type packers struct{ seed maphash.Seed }

// Build implements base.PickerBuilder.
func (p packers) Build(info base.PickerBuildInfo) balancer.Picker {
	if len(info.ReadySCs) == 0 {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	pack := &packer{now: time.Now}
	place := map[*packed]uint64{}
	for conn, sub := range info.ReadySCs {
		s := &packed{conn: conn}
		pack.servers = append(pack.servers, s)
		place[s] = maphash.String(p.seed, sub.Address.Addr)
	}
	slices.SortFunc(pack.servers, func(a, b *packed) int { return cmp.Compare(place[a], place[b]) })
	return pack
}

// packer picks servers, of which the first is preferred.
type packer struct {
	servers []*packed
	next    atomic.Uint32 // of streams
	now     func() time.Time
}

// packed is a server and what it does.
type packed struct {
	conn     balancer.SubConn
	calls    atomic.Int64 // under way
	answered atomic.Int64 // when it last answered one, or got one while it had none; in ns since 1970
}

// Pick implements balancer.Picker.
func (p *packer) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if info.Ctx.Value(spreadKey{}) != nil {
		return balancer.PickResult{SubConn: p.turn().conn}, nil
	}
	s := p.choose()
	if s.calls.Load() == 0 {
		s.answered.Store(p.now().UnixNano())
	}
	s.calls.Add(1)
	return balancer.PickResult{SubConn: s.conn, Done: func(done balancer.DoneInfo) {
		if done.BytesReceived {
			s.answered.Store(p.now().UnixNano())
		}
		s.calls.Add(-1)
	}}, nil
}

// hangs tells whether the server has calls and has answered none for so long that others are preferred.
func (s *packed) hangs(now time.Time) bool {
	return s.calls.Load() > 0 && now.UnixNano()-s.answered.Load() > packPatience.Nanoseconds()
}

// turn returns the server whose turn it is to get a stream, of those that answer if there are any.
func (p *packer) turn() *packed {
	now, all := p.now(), uint32(len(p.servers))
	turn := p.next.Add(1)
	for n := range all {
		if s := p.servers[(turn+n)%all]; !s.hangs(now) {
			return s
		}
	}
	return p.servers[turn%all]
}

// choose returns the first server that answers and has few calls, or else one that has the fewest of those that answer, if there are any.
func (p *packer) choose() *packed {
	now := p.now()
	var best *packed
	var bestHangs bool
	var bestCalls int64
	for _, s := range p.servers {
		calls := s.calls.Load()
		hangs := s.hangs(now)
		if calls < packCalls && !hangs {
			return s
		}
		if best == nil || bestHangs && !hangs || hangs == bestHangs && calls < bestCalls {
			best, bestHangs, bestCalls = s, hangs, calls
		}
	}
	return best
}
