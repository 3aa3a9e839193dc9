package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"howdah.dev/kit/config"
	"howdah.dev/kit/wholefile"
)

// Process runs services as plain processes, for machines without systemd: they outlive who starts them, but nobody starts them at boot, nor again when they end.
//
// Folder has of each its description (NAME.json), its process (NAME.pid) and what it says (NAME.log).
type Process struct{ Folder string }

// running is a process, with when it started, by which another one of its number is known to be none.
type running struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // in ticks after the machine's
}

func (p Process) path(name, kind string) string { return filepath.Join(p.Folder, name+"."+kind) }

// Log is where a service says what it does.
func (p Process) Log(name string) string { return p.path(name, "log") }

// Install keeps the description. It does not start anything.
func (p Process) Install(_ context.Context, u Unit) error {
	if err := os.MkdirAll(p.Folder, 0o700); err != nil {
		return err
	}
	data, err := json.MarshalIndent(u, "", "    ")
	if err != nil {
		return err
	}
	return wholefile.Write(p.path(u.Name, "json"), data, 0o644)
}

// Start starts a service that does not run.
func (p Process) Start(_ context.Context, name string) error {
	u, err := p.unit(name)
	if err != nil {
		return err
	}
	if _, ok := p.alive(name); ok {
		return nil
	}
	environment := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	if u.Environment != "" {
		data, err := os.ReadFile(u.Environment)
		if err != nil {
			return err
		}
		settings, err := config.ParseFile(data)
		if err != nil {
			return fmt.Errorf("%s: %w", u.Environment, err)
		}
		for key, value := range settings {
			environment = append(environment, key+"="+value)
		}
	}
	log, err := os.OpenFile(p.Log(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(u.Command[0], u.Command[1:]...) // not of a context: it outlives this one
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = environment, log, log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	go func() { _ = cmd.Wait() }() // so that it is no zombie, should it end before this process
	_, start := stat(cmd.Process.Pid)
	data, err := json.Marshal(running{cmd.Process.Pid, start})
	if err != nil {
		return err
	}
	return wholefile.Write(p.path(name, "pid"), data, 0o644)
}

// Restart ends a service and starts it again.
func (p Process) Restart(ctx context.Context, name string) error {
	if err := p.Stop(ctx, name); err != nil {
		return err
	}
	return p.Start(ctx, name)
}

// Stop ends a service that may not run: it is asked to, and after a while killed.
func (p Process) Stop(ctx context.Context, name string) error {
	r, ok := p.alive(name)
	if !ok {
		return nil
	}
	fd, err := unix.PidfdOpen(r.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	defer unix.Close(fd)
	for _, try := range []struct {
		signal unix.Signal
		wait   time.Duration
	}{{unix.SIGTERM, stopFor}, {unix.SIGKILL, stopFor}} {
		if err := unix.PidfdSendSignal(fd, try.signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("stop %s: %w", name, err)
		}
		if ended(ctx, fd, try.wait) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s, process %d, does not end", name, r.PID)
}

// ended waits for the end of a process.
func ended(ctx context.Context, fd int, wait time.Duration) bool {
	const step = 200 * time.Millisecond // after which the context is looked at
	for deadline := time.Now().Add(wait); ctx.Err() == nil && time.Now().Before(deadline); {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(step/time.Millisecond))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
		if n > 0 {
			return true
		}
	}
	return false
}

// Status looks for the process.
func (p Process) Status(_ context.Context, name string) (Status, error) {
	if _, err := p.unit(name); errors.Is(err, fs.ErrNotExist) {
		return Status{}, nil
	} else if err != nil {
		return Status{}, err
	}
	s := Status{Installed: true}
	r, ok := p.alive(name)
	if s.Running = ok; ok {
		s.Detail = fmt.Sprintf("process %d; %s says more", r.PID, p.Log(name))
		return s, nil
	}
	s.Detail = fmt.Sprintf("it does not run; %s says why:\n%s", p.Log(name), tail(p.Log(name)))
	return s, nil
}

// tail is the end of a file.
func tail(path string) string {
	const bytesOf = 2000
	data, _ := os.ReadFile(path)
	return string(bytes.TrimSpace(data[max(0, len(data)-bytesOf):]))
}

// Remove ends a service and takes away what is kept of it.
func (p Process) Remove(ctx context.Context, name string) error {
	if err := p.Stop(ctx, name); err != nil {
		return err
	}
	for _, kind := range []string{"json", "pid", "log"} {
		if err := os.Remove(p.path(name, kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	_ = os.Remove(p.Folder) // where nothing else is in it
	return nil
}

func (p Process) unit(name string) (Unit, error) {
	data, err := os.ReadFile(p.path(name, "json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Unit{}, fmt.Errorf("%w: %w", notInstalled(name), err)
	}
	if err != nil {
		return Unit{}, err
	}
	var u Unit
	if err := json.Unmarshal(data, &u); err != nil || len(u.Command) == 0 {
		return Unit{}, fmt.Errorf("%s is no description of a service: %w", p.path(name, "json"), err)
	}
	return u, nil
}

// alive is the process of a service, if it is the same that was started.
func (p Process) alive(name string) (running, bool) {
	data, err := os.ReadFile(p.path(name, "pid"))
	if err != nil {
		return running{}, false
	}
	var r running
	if json.Unmarshal(data, &r) != nil || r.PID <= 0 {
		return running{}, false
	}
	state, start := stat(r.PID)
	return r, start != "" && start == r.Start && state != "Z" && state != "X"
}

// stat is the state of a process and when it started; empty where there is none.
func stat(pid int) (state, start string) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", ""
	}
	// The name, in parentheses, may have any characters.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return "", ""
	}
	return fields[0], fields[19]
}
