// Package hack tests the scripts of hack/ against machines that lack something.
package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// machine is what preflight sees. Empty parts are as they are here.
type machine struct {
	kernel      string // what uname -r prints
	memory      string // /proc/meminfo
	filesystems string // /proc/filesystems
	disk        string // the size of the engine's disk, for mount
	df          string // what df prints about it instead: size, used and free in MiB
	images      bool   // whether howdah's images are built
	taken       string // what ss prints for the port of the gateway
}

// preflight runs the script on the machine, in a mount namespace of its own, and returns what it prints to standard error.
func preflight(t *testing.T, m machine) (string, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("root is needed to put files in the place of the machine's own")
	}
	root := t.TempDir()
	copyScripts(t, root)
	stubs := filepath.Join(root, ".build", "bin") // first in the scripts' PATH
	engine := filepath.Join(root, "engine")
	for _, dir := range []string{stubs, engine} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	image := "exit 1"
	if m.images {
		image = "exit 0"
	}
	script(t, stubs, "docker", `case "$1 $2" in
"info --format") echo `+engine+` ;;
"image inspect") `+image+` ;;
"network inspect") exit 1 ;;
esac`)
	listening := `exit 0`
	if m.taken != "" {
		listening = `case "$*" in *:6443*) echo '` + m.taken + `' ;; esac`
	}
	script(t, stubs, "ss", listening)
	if m.kernel != "" {
		script(t, stubs, "uname", "echo "+m.kernel)
	}
	if m.df != "" {
		script(t, stubs, "df", "echo Filesystem; echo engine "+m.df+" 90% /engine")
	}
	var setup []string
	for path, content := range map[string]string{"/proc/meminfo": m.memory, "/proc/filesystems": m.filesystems} {
		if content == "" {
			continue
		}
		file := filepath.Join(root, filepath.Base(path))
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		setup = append(setup, "mount --bind "+file+" "+path)
	}
	size := m.disk
	if size == "" {
		size = "64g"
	}
	setup = append(setup, "mount -t tmpfs -o size="+size+" engine "+engine, "exec "+filepath.Join(root, "hack", "preflight.sh"))
	cmd := exec.CommandContext(t.Context(), "bash", "-ec", strings.Join(setup, "\n"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	var errs strings.Builder
	cmd.Stderr = &errs
	err := cmd.Run()
	return errs.String(), err
}

func copyScripts(t *testing.T, root string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(root, "hack"), os.DirFS(filepath.Join("..", "..", "hack"))); err != nil {
		t.Fatal(err)
	}
}

func script(t *testing.T, dir, name, body string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

const (
	allFilesystems = "nodev\tcgroup2\nnodev\tbpf\nnodev\toverlay\n"
	enoughMemory   = "MemTotal: 9000000 kB\nMemAvailable:    8000000 kB\n"
)

func TestPreflight(t *testing.T) {
	whole := machine{kernel: "6.1.0-40-amd64", memory: enoughMemory, filesystems: allFilesystems}
	for _, tt := range []struct {
		name   string
		change func(*machine)
		want   string // "" means that nothing is wrong
	}{
		{"Debian 12 as it comes", func(*machine) {}, ""},
		{"old kernel", func(m *machine) { m.kernel = "5.10.0-30-amd64" }, "Linux 5.18 or newer is needed for the eBPF load balancer; this is 5.10.0-30-amd64"},
		{"no BPF", func(m *machine) { m.filesystems = "nodev\tcgroup2\nnodev\toverlay\n" }, "this kernel has no BPF filesystem (CONFIG_BPF_SYSCALL)"},
		{"no cgroup v2", func(m *machine) { m.filesystems = "nodev\tbpf\nnodev\toverlay\n" }, "this kernel has no cgroup v2 (CONFIG_CGROUPS)"},
		{"little memory", func(m *machine) { m.memory = "MemAvailable: 1048576 kB\n" }, "1024 MiB of memory are available; the cluster needs 2048"},
		{"full disk, images to build", func(m *machine) { m.disk = "4g" }, "MiB free; building the images needs 10240"},
		{"the same disk, images there", func(m *machine) { m.disk, m.images = "4g", true }, ""},
		{"full disk, images there", func(m *machine) { m.disk, m.images = "1g", true }, "MiB free; a running cluster needs 2048"},
		{"a large disk of which a tenth is not free", func(m *machine) { m.df, m.images = "256000 232000 24000", true }, ""},
		{"port taken", func(m *machine) {
			m.taken = `LISTEN 0 128 *:6443 *:* users:(("nginx",pid=42,fd=6))`
		}, "port 6443 on this machine is taken (by nginx, pid 42): end that program, or choose another with HOWDAH_REST_PORT=PORT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := whole
			tt.change(&m)
			got, err := preflight(t, m)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v\n%s", err, got)
			case tt.want != "" && (err == nil || !strings.Contains(got, tt.want)):
				t.Errorf("printed %q (%v), want %q", got, err, tt.want)
			}
		})
	}

	t.Run("all at once", func(t *testing.T) {
		got, err := preflight(t, machine{kernel: "5.10.0", memory: "MemAvailable: 1048576 kB\n", filesystems: allFilesystems, disk: "1g"})
		if n := strings.Count(got, "error: "); err == nil || n != 3 {
			t.Errorf("%d problems named, want all 3:\n%s", n, got)
		}
	})
}
