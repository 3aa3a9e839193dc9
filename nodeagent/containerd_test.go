package nodeagent_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent"
)

// insideVariable tells a copy of this test binary that it is process 1 of
// its own namespaces.
const insideVariable = "HOWDAH_TEST_INSIDE"

func TestMain(m *testing.M) {
	if nodeagent.CNIRequested(os.Getenv) { // containerd calls this binary as the CNI plugin
		nodeagent.CNIMain(os.Args[0])
		return
	}
	if filepath.IsAbs(containerdPath()) { // its shim is beside it, and perhaps a runc
		os.Setenv("PATH", filepath.Dir(containerdPath())+":"+os.Getenv("PATH"))
	}
	os.Exit(m.Run())
}

// isolated runs the test in mount, network and process namespaces of its own:
// whatever it leaves behind, the kernel removes with it. It reports whether
// this is the inside.
func isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		prepare(t)
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("a real node needs root")
	}
	for _, program := range []string{containerdPath(), "runc", busybox} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("HOWDAH_TEST_CONTAINERD") != "" { // whoever names a containerd wants the test to run
				t.Fatalf("a real node needs %s: %v", program, err)
			}
			t.Skipf("a real node needs %s (Debian packages containerd, runc, busybox-static): %v", program, err)
		}
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=9m")
	cmd.Env = append(os.Environ(), insideVariable+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	t.Logf("inside:\n%s", out)
	if err != nil {
		t.Fatalf("inside: %v", err)
	}
	return false
}

// prepare gives the namespaces what a node has.
func prepare(t *testing.T) {
	t.Helper()
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	do("private mounts", unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
	do("shared mounts", unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""))
	do("/proc", unix.Mount("proc", "/proc", "proc", 0, ""))
	do("/run", unix.Mount("tmpfs", "/run", "tmpfs", 0, ""))
	do("/sys/fs/bpf", unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, ""))
	lo, err := netlink.LinkByName("lo")
	do("lo", err)
	do("lo up", netlink.LinkSetUp(lo))
	do("uplink", netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "uplink0", MTU: 1500}, PeerName: "outside0"}))
	uplink, err := netlink.LinkByName("uplink0")
	do("uplink", err)
	do("uplink address", netlink.AddrAdd(uplink, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)}}))
	do("uplink up", netlink.LinkSetUp(uplink))
	outside, err := netlink.LinkByName("outside0")
	do("outside", err)
	do("outside up", netlink.LinkSetUp(outside))
	do("default route", netlink.RouteAdd(&netlink.Route{LinkIndex: uplink.Attrs().Index, Gw: net.IPv4(192, 0, 2, 254)}))
	do("forwarding", os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
}

const busybox = "/bin/busybox"

func containerdPath() string {
	if path := os.Getenv("HOWDAH_TEST_CONTAINERD"); path != "" {
		return path
	}
	return "containerd"
}

// containerd is a private one.
type containerd struct {
	dir, endpoint string
	cmd           *exec.Cmd
	log           *os.File
}

// startContainerd runs containerd below dir until the test ends.
func startContainerd(t *testing.T, dir string) *containerd {
	t.Helper()
	c := &containerd{dir: dir, endpoint: "unix://" + filepath.Join(dir, "containerd.sock")}
	bin := filepath.Join(dir, "cni", "bin")
	for _, d := range []string{bin, filepath.Join(dir, "cni", "net.d")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"howdah", "loopback"} {
		if err := copyFile(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf(`version = 2
root = "%[1]s/root"
state = "%[1]s/state"
oom_score = 0
[grpc]
  address = "%[1]s/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "howdah.test/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[1]s/cni/bin"
    conf_dir = "%[1]s/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.second]
    runtime_type = "io.containerd.runc.v2"
`, dir)
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if c.log, err = os.Create(filepath.Join(dir, "containerd.log")); err != nil {
		t.Fatal(err)
	}
	c.start(t)
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		if t.Failed() {
			if raw, err := os.ReadFile(c.log.Name()); err == nil {
				lines := strings.Split(string(raw), "\n")
				t.Logf("containerd:\n%s", strings.Join(lines[max(len(lines)-40, 0):], "\n"))
			}
		}
	})
	return c
}

func (c *containerd) start(t *testing.T) {
	t.Helper()
	c.cmd = exec.Command(containerdPath(), "--config", filepath.Join(c.dir, "config.toml"))
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// busyboxLayer is a file system with busybox.
func busyboxLayer(t *testing.T) []byte {
	t.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	return tarOf(t, func(w *tar.Writer) error {
		for _, d := range []string{"bin", "etc", "tmp", "dev", "proc", "sys", "var"} {
			if err := w.WriteHeader(&tar.Header{Name: d + "/", Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
				return err
			}
		}
		if err := entry(w, "bin/busybox", 0o755, program); err != nil {
			return err
		}
		for _, name := range []string{"sh", "sleep", "cat", "ls", "httpd", "wget", "nc", "id", "touch", "mkdir", "stat", "test", "echo", "true", "false", "kill", "hostname", "ps", "grep", "env", "trap", "dd", "nslookup"} {
			if err := w.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}); err != nil {
				return err
			}
		}
		return entry(w, "etc/passwd", 0o644, []byte("root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"))
	})
}

// digest is the SHA-256 of data, in hex.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// writeImages makes an archive as "docker save" does, with busybox as three images.
func writeImages(t *testing.T, dir string) {
	t.Helper()
	layer := busyboxLayer(t)
	var manifests []map[string]any
	files := map[string][]byte{"layer.tar": layer}
	for name, config := range map[string]map[string]any{
		"howdah.test/busybox:1": {"Cmd": []string{"sh"}, "Env": []string{"PATH=/bin"}},
		"howdah.test/spare:1":   {"Cmd": []string{"true"}},
		"howdah.test/pause:1":   {"Entrypoint": []string{"/bin/busybox", "sleep", "2147483647"}},
	} {
		raw, err := json.Marshal(map[string]any{
			"architecture": "amd64", "os": "linux", "config": config,
			"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		files[digest(raw)+".json"] = raw
		manifests = append(manifests, map[string]any{"Config": digest(raw) + ".json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}})
	}
	raw, err := json.Marshal(manifests)
	if err != nil {
		t.Fatal(err)
	}
	files["manifest.json"] = raw
	archive := tarOf(t, func(w *tar.Writer) error {
		for name, data := range files {
			if err := entry(w, name, 0o644, data); err != nil {
				return err
			}
		}
		return nil
	})
	if err := os.WriteFile(filepath.Join(dir, "images.tar"), archive, 0o644); err != nil {
		t.Fatal(err)
	}
}

func tarOf(t *testing.T, fill func(w *tar.Writer) error) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	if err := fill(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func entry(w *tar.Writer, name string, mode int64, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// eventually waits until check says nothing is missing.
func eventually(t *testing.T, within time.Duration, check func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	missing := check()
	for missing != "" {
		select {
		case <-ctx.Done():
			t.Fatalf("after %v: %s", within, missing)
		case <-time.After(20 * time.Millisecond):
			missing = check()
		}
	}
}
