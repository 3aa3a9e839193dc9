package watchdog

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// manager notes what it is told.
type manager struct {
	within time.Duration
	err    error

	mu   sync.Mutex
	told []string
}

func (m *manager) Within() (time.Duration, error) { return m.within, m.err }

func (m *manager) Notify(state string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, state)
	return true, nil
}

// since returns what it has been told since it was asked last.
func (m *manager) since() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	told := m.told
	m.told = nil
	return told
}

func TestWhatAUnitMayAskFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		manager *manager
		ok      bool
	}{
		"nothing":   {&manager{}, true},
		"enough":    {&manager{within: time.Second + 1}, true},
		"too short": {&manager{within: time.Second}, false},
		"no time":   {&manager{err: errors.New("no number")}, false},
	} {
		if _, err := New(Config{Manager: c.manager, Clock: clock.RealClock{}}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSignsOfLife has an agent begin, hang and recover.
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &manager{within: 10 * time.Second}
		lock := make(chan struct{}, 1) // of the agent
		k, err := New(Config{Manager: m, Clock: clock.RealClock{}, Alive: func() { lock <- struct{}{}; <-lock }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		step := func(what string, after time.Duration, want ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := m.since(); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		step("at first", time.Millisecond, "READY=1", "WATCHDOG=1")
		step("ten seconds later", 10*time.Second, "WATCHDOG=1", "WATCHDOG=1")
		lock <- struct{}{}
		step("it hangs", 20*time.Second)
		<-lock
		step("it goes on", time.Millisecond, "WATCHDOG=1", "WATCHDOG=1") // a tick has waited
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestWithoutAWatchdogItOnlyBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &manager{}
		k, err := New(Config{Manager: m, Clock: clock.RealClock{}, Alive: func() {}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		time.Sleep(time.Hour)
		cancel()
		<-done
		if got := m.since(); !slices.Equal(got, []string{"READY=1"}) {
			t.Errorf("%v", got)
		}
	})
}

// TestSystemd speaks to a socket as systemd's, by its environment.
func TestSystemd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "30000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	if within, err := (Systemd{}).Within(); within != 30*time.Second || err != nil {
		t.Errorf("%v, %v", within, err)
	}
	if sent, err := (Systemd{}).Notify("READY=1"); !sent || err != nil {
		t.Errorf("%v, %v", sent, err)
	}
	message := make([]byte, 100)
	n, err := listener.Read(message)
	if err != nil || string(message[:n]) != "READY=1" {
		t.Errorf("%q, %v", message[:n], err)
	}
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()+1))
	if within, err := (Systemd{}).Within(); within != 0 || err != nil {
		t.Errorf("another process: %v, %v", within, err)
	}
	t.Setenv("NOTIFY_SOCKET", "")
	if sent, err := (Systemd{}).Notify("READY=1"); sent || err != nil {
		t.Errorf("nobody listens: %v, %v", sent, err)
	}
}
