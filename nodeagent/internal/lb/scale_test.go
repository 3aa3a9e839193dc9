package lb

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

// A connect to a service costs the same with 10 and with 10,000 of them. A connect of a datagram socket sends nothing,
// so what is measured is the system call and the program.
func TestCostDoesNotGrowWithServices(t *testing.T) {
	ns := netnstest.New(t, "node")
	n := newNode(t, ns)
	objects := func(count int) []any {
		var out []any
		for i := range count {
			name := fmt.Sprint("s", i)
			out = append(out, service(name, fmt.Sprintf("10.96.%d.%d", i/250, i%250+1), udp(53)),
				endpointSlice(name, 8080, fmt.Sprintf("10.77.%d.%d", i/250, i%250+1), fmt.Sprintf("10.78.%d.%d", i/250, i%250+1), fmt.Sprintf("10.79.%d.%d", i/250, i%250+1)))
		}
		return out
	}
	for _, route := range []string{"10.77.0.0/16", "10.78.0.0/16", "10.79.0.0/16"} {
		ns.Route(route, "", "lo")
	}
	n.start(objects(10)...)
	few := connectCost(t, ns)
	began := time.Now()
	n.apply(objects(10000)...)
	filled := time.Since(began)
	many := connectCost(t, ns)
	began = time.Now()
	n.apply(endpointSlice("s5000", 8080, "10.77.0.1"))
	changed := time.Since(began)
	ratio := float64(many) / float64(few)
	t.Logf("connect: %s with 10 services, %s with 10,000, ratio %.2f; filling the maps: %s; one change among 10,000: %s", few, many, ratio, filled, changed)
	if ratio > 2 {
		t.Errorf("a connect costs %.2f times as much with 1,000 times the services", ratio)
	}
}

// connectCost is that of the best batch, per call: the machine may be busy with something else.
func connectCost(t *testing.T, ns *netnstest.Namespace) time.Duration {
	t.Helper()
	const batches, calls = 60, 1000
	var costs []time.Duration
	ns.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		to := &unix.SockaddrInet4{Port: 53, Addr: [4]byte{10, 96, 0, 3}}
		for range batches {
			began := time.Now()
			for range calls {
				if err := unix.Connect(fd, to); err != nil {
					return fmt.Errorf("connect: %w", err)
				}
			}
			costs = append(costs, time.Since(began)/calls)
		}
		return nil
	})
	return slices.Min(costs)
}
