package rpc

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
	clocktesting "k8s.io/utils/clock/testing"
)

// told hears what a resolver tells its connection.
type told struct{ states chan string }

func (c told) UpdateState(s resolver.State) error {
	var all []string
	for _, a := range s.Addresses {
		all = append(all, a.Addr)
	}
	c.states <- strings.Join(all, " ")
	return nil
}

func (c told) ReportError(err error)                                { c.states <- err.Error() }
func (c told) NewAddress([]resolver.Address)                        {}
func (c told) ParseServiceConfig(string) *serviceconfig.ParseResult { return nil }

// TestNamesComeBack: a name that is not there is looked for every second, however long it is away, one that is there when an address does not answer, and now and then.
func TestNamesComeBack(t *testing.T) {
	t.Parallel()
	answers, clock, cc := make(chan []string), clocktesting.NewFakeClock(time.Now()), told{make(chan string)}
	n := names{clock: clock, lookup: func(ctx context.Context, host string) ([]string, error) {
		select {
		case found := <-answers:
			if found == nil {
				return nil, errors.New("no such host")
			}
			return found, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	r, err := n.Build(resolver.Target{URL: url.URL{Scheme: "dns", Path: "/apiserver:7443"}}, cc, resolver.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	look := func(found []string, want string) {
		t.Helper()
		select {
		case answers <- found:
		case <-time.After(time.Minute):
			t.Fatal("the name is not looked up")
		}
		if got := <-cc.states; got != want {
			t.Fatalf("told %q, want %q", got, want)
		}
	}
	pass := func(d time.Duration) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !clock.HasWaiters(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nobody waits")
			}
		}
		clock.Step(d)
	}
	look([]string{"192.0.2.1", "192.0.2.2"}, "192.0.2.1:7443 192.0.2.2:7443")
	r.ResolveNow(resolver.ResolveNowOptions{}) // an address does not answer
	r.ResolveNow(resolver.ResolveNowOptions{})
	pass(resolveAgain)
	for range 20 {
		look(nil, "look up apiserver: no such host")
		pass(resolveAgain)
	}
	look([]string{"2001:db8::1"}, "[2001:db8::1]:7443")
	pass(resolveAgain)
	pass(resolveAnyway - resolveAgain)
	look([]string{"192.0.2.3"}, "192.0.2.3:7443")
	r.Close() // returns when nobody looks any more
}

func TestTargets(t *testing.T) {
	t.Parallel()
	cc := told{make(chan string, 1)}
	r, err := newNames().Build(resolver.Target{URL: url.URL{Scheme: "dns", Path: "/192.0.2.1:7443"}}, cc, resolver.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.ResolveNow(resolver.ResolveNowOptions{})
	r.Close()
	if got := <-cc.states; got != "192.0.2.1:7443" {
		t.Errorf("told %q", got)
	}
	if _, err := newNames().Build(resolver.Target{URL: url.URL{Scheme: "dns", Path: "/apiserver"}}, cc, resolver.BuildOptions{}); err == nil {
		t.Error("a target without a port is taken")
	}
}
