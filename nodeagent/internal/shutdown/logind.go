package shutdown

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"

	"howdah.dev/kit/wholefile"
)

// Names of systemd's login manager on the system's bus (org.freedesktop.login1(5)).
const (
	logindName    = "org.freedesktop.login1"
	logindPath    = "/org/freedesktop/login1"
	logindManager = "org.freedesktop.login1.Manager"
	systemdName   = "org.freedesktop.systemd1"
	systemdPath   = "/org/freedesktop/systemd1"
)

// callWithin bounds a call over the bus.
const callWithin = 10 * time.Second

// rereadWithin bounds the wait for logind to have read its configuration anew, asked every rereadEvery: it says nothing when it has.
const (
	rereadWithin = 3 * time.Second
	rereadEvery  = 50 * time.Millisecond
)

// Logind is told of the shutdown by systemd's login manager, and delays it by an inhibitor lock.
type Logind struct {
	// Address is that of the bus; default the system's.
	Address string
	// ConfigDir has the files that add to logind's configuration; default /etc/systemd/logind.conf.d. One is written where logind would not wait as
	// long as it has to (InhibitDelayMaxSec).
	ConfigDir string
}

// session is one connection to the bus.
type session struct {
	conn    *dbus.Conn
	logind  dbus.BusObject
	signals chan *dbus.Signal
	lock    *os.File // nil where there is none
}

// Await takes the lock, and waits for the signal PrepareForShutdown. What is wrong with the bus, or its end, is an error.
func (l Logind) Await(ctx context.Context, patience time.Duration) (Notice, error) {
	s, err := l.open(ctx)
	if err != nil {
		return Notice{}, fmt.Errorf("connect to the system's bus: %w", err)
	}
	if err := l.await(ctx, s, patience); err != nil {
		s.close()
		return Notice{}, err
	}
	return Notice{Done: s.unlock, CalledOff: func(ctx context.Context) error {
		defer s.close()
		return s.next(ctx, false)
	}}, nil
}

func (l Logind) open(ctx context.Context) (*session, error) {
	connect := func(o ...dbus.ConnOption) (*dbus.Conn, error) { return dbus.Connect(l.Address, o...) }
	if l.Address == "" {
		connect = dbus.ConnectSystemBus
	}
	conn, err := connect(dbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, logind: conn.Object(logindName, logindPath), signals: make(chan *dbus.Signal, 8)}
	conn.Signal(s.signals) // closed with the connection
	return s, nil
}

// await returns when the machine is to go down. While an agent is started it may be about to: then there is no lock to be had.
func (l Logind) await(ctx context.Context, s *session, patience time.Duration) error {
	callCtx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	err := s.conn.AddMatchSignalContext(callCtx, dbus.WithMatchInterface(logindManager), dbus.WithMatchObjectPath(logindPath), dbus.WithMatchMember("PrepareForShutdown"))
	if err != nil {
		return fmt.Errorf("follow logind's signals: %w", err)
	}
	var down bool
	if err := s.logind.StoreProperty(logindManager+".PreparingForShutdown", &down); err != nil {
		return fmt.Errorf("ask logind whether the machine goes down: %w", err)
	}
	if down {
		return nil
	}
	if err := l.lengthen(callCtx, s, patience); err != nil {
		return err
	}
	if err := s.inhibit(callCtx); err != nil {
		return err
	}
	return s.next(ctx, true)
}

// inhibit has logind wait with shutdowns from now on.
func (s *session) inhibit(ctx context.Context) error {
	var fd dbus.UnixFD
	if err := s.logind.CallWithContext(ctx, logindManager+".Inhibit", 0, "shutdown", "kubelet", "Kubelet needs time to handle node shutdown", "delay").Store(&fd); err != nil {
		return fmt.Errorf("take logind's lock: %w", err)
	}
	syscall.CloseOnExec(int(fd))
	s.lock = os.NewFile(uintptr(fd), "logind's lock")
	return nil
}

// lengthen has logind wait long enough.
func (l Logind) lengthen(ctx context.Context, s *session, patience time.Duration) error {
	now, err := s.delay()
	if err != nil || now >= patience {
		return err
	}
	dir := l.ConfigDir
	if dir == "" {
		dir = "/etc/systemd/logind.conf.d"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("# Written by howdah nodeagent: as long as pods may take to end.\n[Login]\nInhibitDelayMaxSec=%.0f\n", patience.Seconds())
	if err := wholefile.Write(filepath.Join(dir, "99-kubelet.conf"), []byte(text), 0o644); err != nil {
		return err
	}
	systemd := s.conn.Object(systemdName, systemdPath)
	err = systemd.CallWithContext(ctx, systemdName+".Manager.KillUnit", 0, "systemd-logind.service", "all", int32(syscall.SIGHUP)).Err
	if err != nil {
		return fmt.Errorf("have logind read its configuration anew: %w", err)
	}
	return s.awaitDelay(ctx, patience)
}

// awaitDelay waits until logind has read that it is to wait so long.
func (s *session) awaitDelay(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, rereadWithin)
	defer cancel()
	ticker := time.NewTicker(rereadEvery)
	defer ticker.Stop()
	for {
		now, err := s.delay()
		if err != nil || now >= patience {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("logind waits %s with a shutdown, and pods may take %s: some other file sets InhibitDelayMaxSec", now, patience)
		case <-ticker.C:
		}
	}
}

// delay is how long logind waits with a shutdown.
func (s *session) delay() (time.Duration, error) {
	var usec uint64
	if err := s.logind.StoreProperty(logindManager+".InhibitDelayMaxUSec", &usec); err != nil {
		return 0, fmt.Errorf("ask logind how long it waits: %w", err)
	}
	return time.Duration(usec) * time.Microsecond, nil
}

// next waits until logind says that the machine goes down, or that it does not.
func (s *session) next(ctx context.Context, down bool) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case heard, open := <-s.signals:
			if !open {
				return errors.New("the system's bus has ended the connection")
			}
			if len(heard.Body) == 1 && heard.Body[0] == down {
				return nil
			}
		}
	}
}

// unlock lets the machine go down.
func (s *session) unlock() {
	if s.lock == nil {
		return
	}
	if err := s.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		slog.Warn("give logind's lock back", "err", err)
	}
}

// close gives back what is held.
func (s *session) close() {
	s.unlock()
	_ = s.conn.Close() // nobody is left to be told
}
