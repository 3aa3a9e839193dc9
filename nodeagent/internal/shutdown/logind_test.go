package shutdown

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

// startBus starts a bus of the test's own and returns its address.
func startBus(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "bus.conf")
	text := `<busconfig><type>system</type><listen>unix:dir=` + dir + `</listen><policy context="default"><allow send_destination="*"/><allow own="*"/><allow eavesdrop="false"/></policy></busconfig>`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("dbus-daemon", "--nofork", "--print-address", "--config-file="+config)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: hack/install.sh --test installs it", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address)
}

// login is a login manager, and systemd, on a bus.
type login struct {
	conn       *dbus.Conn
	properties *prop.Properties
	asked      chan []string
	locks      chan lock
	deaf       bool // it does not read its configuration anew
}

func startLogind(t *testing.T, address string, delay time.Duration, deaf bool) *login {
	t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	l := &login{conn: conn, asked: make(chan []string, 4), locks: make(chan lock, 4), deaf: deaf}
	l.properties, err = prop.Export(conn, logindPath, prop.Map{logindManager: {
		"InhibitDelayMaxUSec":  {Value: uint64(delay.Microseconds())},
		"PreparingForShutdown": {Value: false},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		conn.Export(l, logindPath, logindManager), conn.Export(systemd{l}, systemdPath, systemdName+".Manager"), own(conn, logindName), own(conn, systemdName),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func own(conn *dbus.Conn, name string) error {
	reply, err := conn.RequestName(name, dbus.NameFlagDoNotQueue)
	if err == nil && reply != dbus.RequestNameReplyPrimaryOwner {
		err = errors.New("the name is taken")
	}
	return err
}

// Inhibit gives the lock out: one end of a pipe.
func (l *login) Inhibit(what, who, _, mode string) (dbus.UnixFD, *dbus.Error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	l.locks <- lock{os.NewFile(uintptr(ends[0]), "lock"), ends[1]}
	l.asked <- []string{what, who, mode}
	return dbus.UnixFD(ends[1]), nil
}

// lock is one that was given out. Its holder has a copy of given.
type lock struct {
	held  *os.File
	given int
}

// taken waits until somebody holds a lock, and lets go of the copy that was sent: nothing tells when it was.
func (l *login) taken(t *testing.T) *os.File {
	t.Helper()
	k := within(t, "lock", l.locks)
	t.Cleanup(func() { k.held.Close() })
	info, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", k.given))
	if err != nil {
		t.Fatal(err)
	}
	for copies(info) < 3 { // both ends, and the holder's
		time.Sleep(time.Millisecond)
	}
	if err := syscall.Close(k.given); err != nil {
		t.Fatal(err)
	}
	return k.held
}

// copies counts the process's files that are the one.
func copies(file string) int {
	entries, _ := os.ReadDir("/proc/self/fd")
	n := 0
	for _, e := range entries {
		if target, _ := os.Readlink("/proc/self/fd/" + e.Name()); target == file {
			n++
		}
	}
	return n
}

// tell says that the machine goes down, or not.
func (l *login) tell(t *testing.T, down bool) {
	t.Helper()
	l.properties.SetMust(logindManager, "PreparingForShutdown", down)
	if err := l.conn.Emit(logindPath, logindManager+".PrepareForShutdown", down); err != nil {
		t.Fatal(err)
	}
}

// systemd has logind read its configuration anew.
type systemd struct{ *login }

func (s systemd) KillUnit(unit, who string, signal int32) *dbus.Error {
	s.asked <- []string{unit, who, syscall.Signal(signal).String()}
	if !s.deaf {
		s.properties.SetMust(logindManager, "InhibitDelayMaxUSec", uint64((30 * time.Second).Microseconds()))
	}
	return nil
}

// outcome is what Await returned.
type outcome struct {
	notice Notice
	err    error
}

func await(t *testing.T, l Logind, patience time.Duration) <-chan outcome {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	out := make(chan outcome, 1)
	go func() {
		n, err := l.Await(ctx, patience)
		out <- outcome{n, err}
	}()
	return out
}

func TestLogindWaitsForThePods(t *testing.T) {
	t.Parallel()
	address, dir := startBus(t), filepath.Join(t.TempDir(), "logind.conf.d")
	manager := startLogind(t, address, 5*time.Second, false)
	out := await(t, Logind{Address: address, ConfigDir: dir}, 30*time.Second)
	for _, want := range []string{"systemd-logind.service all hangup", "shutdown kubelet delay"} {
		if got := strings.Join(within(t, "call", manager.asked), " "); got != want {
			t.Fatalf("logind was asked for %q, want %q", got, want)
		}
	}
	written, err := os.ReadFile(filepath.Join(dir, "99-kubelet.conf"))
	if err != nil || !strings.Contains(string(written), "[Login]\nInhibitDelayMaxSec=30\n") {
		t.Fatalf("the configuration is %q, %v", written, err)
	}
	held := manager.taken(t)
	manager.tell(t, true)
	got := within(t, "notice", out)
	if got.err != nil {
		t.Fatal(got.err)
	}
	released := make(chan error, 1)
	go func() { _, err := held.Read(make([]byte, 1)); released <- err }()
	select {
	case err := <-released:
		t.Fatalf("the lock is given back before the pods have ended: %v", err)
	default:
	}
	got.notice.Done()
	if err := within(t, "release", released); !errors.Is(err, io.EOF) {
		t.Fatalf("read from the lock: %v", err)
	}
	manager.tell(t, false)
	if err := got.notice.CalledOff(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestLogindWaitsLongEnoughAlready(t *testing.T) {
	t.Parallel()
	address, dir := startBus(t), filepath.Join(t.TempDir(), "logind.conf.d")
	manager := startLogind(t, address, time.Minute, false)
	await(t, Logind{Address: address, ConfigDir: dir}, 30*time.Second)
	if got := within(t, "call", manager.asked); got[0] != "shutdown" {
		t.Errorf("logind was asked for %q first", got)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a configuration was written for nothing: %v", err)
	}
}

// Another file of logind's may set the time: then pods would be cut off, which is said.
func TestLogindDoesNotWait(t *testing.T) {
	t.Parallel()
	address := startBus(t)
	startLogind(t, address, 5*time.Second, true)
	got := within(t, "outcome", await(t, Logind{Address: address, ConfigDir: t.TempDir()}, 30*time.Second))
	if got.err == nil || !strings.Contains(got.err.Error(), "logind waits 5s with a shutdown, and pods may take 30s") {
		t.Errorf("got %v", got.err)
	}
}

// An agent that starts while the machine goes down says so at once.
func TestLogindIsAboutToGoDown(t *testing.T) {
	t.Parallel()
	address := startBus(t)
	manager := startLogind(t, address, time.Minute, false)
	manager.properties.SetMust(logindManager, "PreparingForShutdown", true)
	got := within(t, "notice", await(t, Logind{Address: address, ConfigDir: t.TempDir()}, 30*time.Second))
	if got.err != nil {
		t.Fatal(got.err)
	}
	got.notice.Done()
	manager.tell(t, false)
	if err := got.notice.CalledOff(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestBusIsAway(t *testing.T) {
	t.Parallel()
	if got := within(t, "outcome", await(t, Logind{Address: "unix:path=" + filepath.Join(t.TempDir(), "bus")}, time.Second)); got.err == nil {
		t.Error("there is no bus, and no error")
	}
	address := startBus(t)
	manager := startLogind(t, address, time.Minute, false)
	out := await(t, Logind{Address: address, ConfigDir: t.TempDir()}, time.Second)
	manager.taken(t)
	manager.conn.Close()
	if got := within(t, "outcome of a logind that has gone", await(t, Logind{Address: address, ConfigDir: t.TempDir()}, time.Second)); got.err == nil {
		t.Error("there is no logind, and no error")
	}
	select {
	case got := <-out:
		t.Errorf("logind's end, which comes back, is taken for the bus's: %+v", got)
	default:
	}
}
