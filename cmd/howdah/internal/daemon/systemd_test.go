package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSystemd(t *testing.T) {
	t.Parallel()
	var calls []string
	answer, failure := "", error(nil)
	s := Systemd{Folder: t.TempDir(), Call: func(_ context.Context, name string, args ...string) (string, error) {
		calls = append(calls, name+" "+strings.Join(args, " "))
		return answer, failure
	}}
	ctx := t.Context()
	u := Control("/usr/local/bin/howdah", "/etc/howdah")
	if err := s.Start(ctx, u.Name); err == nil || !strings.Contains(err.Error(), "there is no service") {
		t.Errorf("what is not there is started: %v", err)
	}
	if err := errors.Join(s.Stop(ctx, u.Name), s.Remove(ctx, u.Name)); err != nil || len(calls) > 0 {
		t.Errorf("what is not there is ended: %v, %v", err, calls)
	}
	if status, err := s.Status(ctx, u.Name); err != nil || status.Installed {
		t.Errorf("%+v, %v", status, err)
	}
	if err := errors.Join(s.Install(ctx, u), s.Start(ctx, u.Name), s.Restart(ctx, u.Name), s.Stop(ctx, u.Name)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.Folder, "howdah-control-plane.service"))
	for _, want := range []string{
		"\nExecStart=/usr/local/bin/howdah standalone\n", "\nEnvironmentFile=/etc/howdah/control-plane.env\n", "\nRestart=always\n", "\nWantedBy=multi-user.target\n",
		"\nAfter=network-online.target postgresql.service\n",
	} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: the unit lacks %q:\n%s", err, want, text)
		}
	}
	answer = "ActiveState=active\nSubState=running\n"
	if status, err := s.Status(ctx, u.Name); err != nil || !status.Installed || !status.Running {
		t.Errorf("%+v, %v", status, err)
	}
	answer = "ActiveState=activating\nSubState=auto-restart\n"
	if status, err := s.Status(ctx, u.Name); err != nil || status.Running || !strings.Contains(status.Detail, "activating (auto-restart); journalctl -u howdah-control-plane") {
		t.Errorf("%+v, %v", status, err)
	}
	if err := s.Remove(ctx, u.Name); err != nil {
		t.Fatal(err)
	}
	const show = "systemctl show --property=ActiveState --property=SubState howdah-control-plane"
	want := []string{
		"systemctl daemon-reload", "systemctl enable howdah-control-plane", "systemctl start howdah-control-plane", "systemctl restart howdah-control-plane",
		"systemctl stop howdah-control-plane", show, show, "systemctl disable --now howdah-control-plane", "systemctl daemon-reload",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("%q", calls)
	}
	if left, err := os.ReadDir(s.Folder); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if failure = errors.New("no"); s.Install(ctx, u) == nil {
		t.Error("a failure is no error")
	}
}

func TestAgentKeepsItsContainers(t *testing.T) {
	t.Parallel()
	text := file(Agent("/usr/local/bin/howdah", "/etc/howdah/node"))
	for _, want := range []string{"\nExecStart=/usr/local/bin/howdah nodeagent --tls-dir=/etc/howdah/node\n", "\nKillMode=process\n", "containerd.service"} {
		if !strings.Contains(text, want) {
			t.Errorf("the unit lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "EnvironmentFile") {
		t.Error("the agent reads its file itself")
	}
}
