package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"howdah.dev/kit/wholefile"
)

// Systemd has services run by systemd, which starts them at boot and again when they end.
type Systemd struct {
	// Folder of unit files.
	Folder string
	// Call runs a program and returns what it prints.
	Call func(ctx context.Context, name string, args ...string) (string, error)
}

// NewSystemd is that of this machine.
func NewSystemd() Systemd { return Systemd{Folder: "/etc/systemd/system", Call: call} }

func call(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

func (s Systemd) path(name string) string { return filepath.Join(s.Folder, name+".service") }

// file is the text of a unit.
func file(u Unit) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by howdah.\n[Unit]\nDescription=%s\n", u.Description)
	if len(u.After) > 0 {
		fmt.Fprintf(&b, "Wants=network-online.target\nAfter=%s\n", strings.Join(u.After, " "))
	}
	fmt.Fprintf(&b, "StartLimitIntervalSec=0\n\n[Service]\n")
	if u.Environment != "" {
		fmt.Fprintf(&b, "EnvironmentFile=%s\n", u.Environment)
	}
	fmt.Fprintf(&b, "ExecStart=%s\nRestart=always\nRestartSec=1\nTimeoutStopSec=%d\nLimitNOFILE=1048576\n", strings.Join(u.Command, " "), int(stopFor.Seconds()))
	if u.KeepChildren {
		fmt.Fprintf(&b, "KillMode=process\n")
	}
	fmt.Fprintf(&b, "\n[Install]\nWantedBy=multi-user.target\n")
	return b.String()
}

// Install writes the unit and has it start at boot. It does not start it.
func (s Systemd) Install(ctx context.Context, u Unit) error {
	text := []byte(file(u))
	if old, err := os.ReadFile(s.path(u.Name)); err != nil || !bytes.Equal(old, text) {
		if err := wholefile.Write(s.path(u.Name), text, 0o644); err != nil {
			return err
		}
	}
	if _, err := s.Call(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	_, err := s.Call(ctx, "systemctl", "enable", u.Name)
	return err
}

// Start starts a service that does not run.
func (s Systemd) Start(ctx context.Context, name string) error { return s.do(ctx, "start", name) }

// Restart ends a service and starts it again.
func (s Systemd) Restart(ctx context.Context, name string) error { return s.do(ctx, "restart", name) }

// Stop ends a service that may not run.
func (s Systemd) Stop(ctx context.Context, name string) error {
	if err := s.do(ctx, "stop", name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s Systemd) do(ctx context.Context, verb, name string) error {
	if _, err := os.Stat(s.path(name)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", notInstalled(name), err)
	}
	_, err := s.Call(ctx, "systemctl", verb, name)
	return err
}

// Status asks systemd.
func (s Systemd) Status(ctx context.Context, name string) (Status, error) {
	if _, err := os.Stat(s.path(name)); errors.Is(err, fs.ErrNotExist) {
		return Status{}, nil
	}
	out, err := s.Call(ctx, "systemctl", "show", "--property=ActiveState", "--property=SubState", name)
	if err != nil {
		return Status{}, err
	}
	state := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		state[key] = value
	}
	return Status{
		Installed: true, Running: state["ActiveState"] == "active",
		Detail: fmt.Sprintf("%s (%s); journalctl -u %s says more", state["ActiveState"], state["SubState"], name),
	}, nil
}

// Remove ends a service and takes its unit away.
func (s Systemd) Remove(ctx context.Context, name string) error {
	if _, err := os.Stat(s.path(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := s.Call(ctx, "systemctl", "disable", "--now", name); err != nil {
		return err
	}
	if err := os.Remove(s.path(name)); err != nil {
		return err
	}
	_, err := s.Call(ctx, "systemctl", "daemon-reload")
	return err
}
