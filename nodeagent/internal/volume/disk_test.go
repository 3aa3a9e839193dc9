package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestFileSystemsOnDevices makes a file system where a device has nothing, and never else.
func TestFileSystemsOnDevices(t *testing.T) {
	t.Parallel()
	const fails = `MountVolume.MountDevice failed for volume "pv" : `
	for name, test := range map[string]struct {
		kind     *string
		options  []string
		readOnly bool
		has      string // what blkid says
		code     int
		away     error // that a program is not there
		refuse   bool  // the mount
		broken   int   // what fsck ends with
		shared   bool  // another pod has it
		runs     []string
		says     string
	}{
		"nothing":             {code: 2, runs: []string{"blkid", "mkfs.ext4 -F -m0 DEVICE", "mount -t ext4 DEVICE DIR"}},
		"nothing, named":      {kind: ptr.To("xfs"), code: 2, runs: []string{"blkid", "mkfs.xfs -f DEVICE", "mount -t xfs DEVICE DIR"}},
		"nothing, to read":    {readOnly: true, code: 2, runs: []string{"blkid"}, says: "cannot mount unformatted disk DEVICE as it is in read-only mode"},
		"a file system":       {options: []string{"noatime", "discard"}, has: "DEVNAME=/dev/x\nTYPE=ext3", runs: []string{"blkid", "fsck -a DEVICE", "mount -t ext3 -o noatime,discard DEVICE DIR"}},
		"a broken one":        {has: "TYPE=ext4", broken: 4, runs: []string{"blkid", "fsck -a DEVICE"}, says: "'fsck' found errors on device DEVICE but could not correct them: tell"},
		"a mended one":        {has: "TYPE=ext4", broken: 1, runs: []string{"blkid", "fsck -a DEVICE", "mount -t ext4 DEVICE DIR"}},
		"one that is in use":  {has: "TYPE=ext4", shared: true, runs: []string{"blkid", "mount -t ext4 DEVICE DIR"}},
		"to read":             {readOnly: true, has: "TYPE=ext4", runs: []string{"blkid", "mount -t ext4 DEVICE DIR"}},
		"another file system": {kind: ptr.To("ext4"), has: "TYPE=xfs", refuse: true, runs: []string{"blkid", "fsck -a DEVICE", "mount -t ext4 DEVICE DIR"}, says: `failed to mount the volume as "ext4", it already contains xfs: mount -t ext4 DEVICE DIR: exit status 32: no`},
		"partitions":          {has: "PTTYPE=dos", runs: []string{"blkid"}, says: "DEVICE has partitions (dos), and no file system"},
		"who knows":           {code: 8, has: "ambivalent", runs: []string{"blkid"}, says: "blkid ended with 8: ambivalent"},
		"silence":             {runs: []string{"blkid"}, says: "blkid says nothing of DEVICE: "},
		"no program":          {away: errors.New("no blkid"), runs: []string{"blkid"}, says: "no blkid"},
	} {
		device := filepath.Join(t.TempDir(), "device")
		if err := os.WriteFile(device, make([]byte, 1024), 0o600); err != nil {
			t.Fatal(err)
		}
		m, _, _ := setupClaim(t, boundClaim("pv"), volumeOf("pv", local(device), func(v *corev1.PersistentVolume) {
			v.Spec.Local.FSType, v.Spec.MountOptions = test.kind, test.options
		}))
		p := podWith(claimed(test.readOnly))
		dir := filepath.Join(m.cfg.RootDir, "pods", string(p.UID), "volumes", localKind, "pv")
		plain := strings.NewReplacer(device, "DEVICE", dir, "DIR")
		if test.shared {
			if err := os.MkdirAll(filepath.Join(m.cfg.RootDir, "pods", "other", "volumes", localKind, "pv"), 0o750); err != nil {
				t.Fatal(err)
			}
		}
		var runs []string
		m.cfg.Command = func(_ context.Context, name string, args ...string) (string, int, error) {
			if name == "blkid" {
				runs = append(runs, name)
				return test.has, test.code, test.away
			}
			if name == "fsck" {
				runs = append(runs, plain.Replace(name+" "+strings.Join(args, " ")))
				return "tell", test.broken, nil
			}
			runs = append(runs, plain.Replace(name+" "+strings.Join(args, " ")))
			if name == "mount" && test.refuse {
				return "no", 32, nil
			}
			return "", 0, nil
		}
		made, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
		if !slices.Equal(runs, test.runs) {
			t.Errorf("%s: ran %q, want %q", name, runs, test.runs)
		}
		if test.says == "" && (err != nil || made.Mounts["v"] != dir) {
			t.Errorf("%s: %v, %v", name, made, err)
		}
		if test.says != "" && (err == nil || plain.Replace(err.Error()) != fails+test.says) {
			t.Errorf("%s: %v, want %s", name, err, test.says)
		}
	}
}

// TestOneMakesAFileSystem lets one of two pods that begin at the same time make the file system, and the other find it.
func TestOneMakesAFileSystem(t *testing.T) {
	t.Parallel()
	device := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(device, make([]byte, 1024), 0o600); err != nil {
		t.Fatal(err)
	}
	m, _, _ := setupClaim(t, boundClaim("pv"), volumeOf("pv", local(device)))
	var looks, made int // written by who holds the device alone, as the race detector sees
	m.cfg.Command = func(_ context.Context, name string, _ ...string) (string, int, error) {
		switch name {
		case "blkid":
			looks++
			if made == 0 {
				return "", 2, nil
			}
			return "TYPE=ext4", 0, nil
		case "mkfs.ext4":
			made++
		}
		return "", 0, nil
	}
	done := make(chan error)
	for _, uid := range []types.UID{"a", "b", "c"} {
		p := podWith(claimed(false))
		p.UID = uid
		go func() { _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); done <- err }()
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if looks != 3 || made != 1 {
		t.Errorf("looked %d times, made %d file systems", looks, made)
	}
}

// TestDeviceThatCannotBeRead is not taken for an empty one.
func TestDeviceThatCannotBeRead(t *testing.T) {
	t.Parallel()
	device := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(device, nil, 0o600); err != nil { // of no size
		t.Fatal(err)
	}
	m, _, _ := setupClaim(t, boundClaim("pv"), volumeOf("pv", local(device)))
	m.cfg.Command = func(_ context.Context, name string, _ ...string) (string, int, error) {
		t.Errorf("%s ran", name)
		return "", 2, nil
	}
	if _, err := m.Setup(t.Context(), podWith(claimed(false)), &corev1.PodStatus{}); err == nil {
		t.Error("no error")
	}
}

// TestExecute tells how a program ended from that it did not run.
func TestExecute(t *testing.T) {
	t.Parallel()
	if said, code, err := Execute(t.Context(), "sh", "-c", "echo no; exit 2"); said != "no" || code != 2 || err != nil {
		t.Errorf("%q, %d, %v", said, code, err)
	}
	if said, code, err := Execute(t.Context(), "sh", "-c", "echo yes"); said != "yes" || code != 0 || err != nil {
		t.Errorf("%q, %d, %v", said, code, err)
	}
	// A daemon that a program leaves behind with its output keeps nobody waiting for long.
	if said, code, err := Execute(t.Context(), "sh", "-c", "sleep 6 & echo yes"); said != "yes" || code != 0 || err != nil {
		t.Errorf("%q, %d, %v", said, code, err)
	}
	if _, _, err := Execute(t.Context(), "no-such-program-at-all"); err == nil {
		t.Error("a program that is not there ran")
	}
}
