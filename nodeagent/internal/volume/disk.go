package volume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/container"
)

// Command runs a program of the node's, and returns what it says and the code that it ends with. The error is that it did not run.
type Command func(ctx context.Context, name string, args ...string) (said string, code int, err error)

// leftWithin bounds how long what a program says is waited for once it has ended: iscsiadm may leave a daemon behind that has its output.
const leftWithin = 2 * time.Second

// Execute is the Command of this machine.
func Execute(ctx context.Context, name string, args ...string) (string, int, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = leftWithin
	said, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) { // it has ended well
		err = nil
	}
	if ended, is := errors.AsType[*exec.ExitError](err); is && ended.ExitCode() >= 0 {
		return strings.TrimSpace(string(said)), ended.ExitCode(), nil
	}
	return strings.TrimSpace(string(said)), 0, err
}

// usualKind is that of file systems for which nobody names one.
const usualKind = "ext4"

// localDisk mounts a block device of the node at a pod's folder. Pods that share a device share its file system, each by a mount of its own.
func (m *Manager) localDisk(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, pv *corev1.PersistentVolume, dir string) error {
	readOnly := container.ReadOnlyVolume(v)
	device, err := filepath.EvalSymlinks(pv.Spec.Local.Path)
	if err != nil {
		return err
	}
	kind := ""
	if pv.Spec.Local.FSType != nil {
		kind = *pv.Spec.Local.FSType
	}
	d := disk{device: device, dir: dir, kind: kind, options: pv.Spec.MountOptions, readOnly: readOnly, used: func() bool { return m.shared(pod, pv) }}
	if err := m.mountDisk(ctx, d); err != nil {
		return err
	}
	if group := fsGroup(pod); group != nil && !readOnly {
		if err := ownAll(dir, *group, pod.Spec.SecurityContext.FSGroupChangePolicy); err != nil {
			// Else the next try would take it for made.
			return errors.Join(fmt.Errorf("applyFSGroup failed for vol %s: %w", pv.Name, err), m.cfg.Mounter.Unmount(dir))
		}
	}
	return nil
}

// disk is a block device that is to be mounted.
type disk struct {
	device, dir string
	kind        string // of the file system; "" is whichever is there, or the usual one
	options     []string
	readOnly    bool
	// used reports whether somebody has it mounted.
	used func() bool
}

// mountDisk mounts a block device. Where there is nothing on it at all, a file system is made first.
func (m *Manager) mountDisk(ctx context.Context, d disk) error {
	m.disks.LockKey(d.device) // two pods that begin at the same time would both find nothing there
	defer func() { _ = m.disks.UnlockKey(d.device) }()
	has, err := m.contents(ctx, d.device)
	if err != nil {
		return err
	}
	switch {
	case has == "" && d.readOnly:
		return fmt.Errorf("cannot mount unformatted disk %s as it is in read-only mode", d.device)
	case has == "":
		d.kind = orUsual(d.kind)
		if err := m.must(ctx, "mkfs."+d.kind, formatting(d.kind, d.device)...); err != nil {
			return fmt.Errorf("failed to format disk %s with %s: %w", d.device, d.kind, err)
		}
	case d.kind == "":
		d.kind = has
	}
	if has != "" && !d.readOnly && !d.used() {
		if err := m.mend(ctx, d.device); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(d.dir, 0o750); err != nil {
		return err
	}
	args := []string{"-t", d.kind}
	if len(d.options) > 0 {
		args = append(args, "-o", strings.Join(d.options, ","))
	}
	if err := m.must(ctx, "mount", append(args, d.device, d.dir)...); err != nil {
		if has != "" && has != d.kind {
			err = fmt.Errorf("failed to mount the volume as %q, it already contains %s: %w", d.kind, has, err)
		}
		return err
	}
	return nil
}

// mend has a file system checked that nobody uses, and what can be repaired without a question repaired.
func (m *Manager) mend(ctx context.Context, device string) error {
	said, code, err := m.cfg.Command(ctx, "fsck", "-a", device)
	switch {
	case err != nil:
		slog.WarnContext(ctx, "check a file system", "device", device, "err", err)
	case code == 4:
		return fmt.Errorf("'fsck' found errors on device %s but could not correct them: %s", device, said)
	case code > 1: // 1 is that it has repaired something
		slog.WarnContext(ctx, "check a file system", "device", device, "code", code, "said", said)
	}
	return nil
}

func orUsual(kind string) string {
	if kind == "" {
		return usualKind
	}
	return kind
}

// contents returns what file system, or what else, is on a device; "" where it is certain that there is nothing.
func (m *Manager) contents(ctx context.Context, device string) (string, error) {
	file, err := os.Open(device) // blkid does not tell what it cannot read from what is empty
	if err != nil {
		return "", err
	}
	defer file.Close()
	if _, err := file.Read(make([]byte, 512)); err != nil {
		return "", fmt.Errorf("read %s: %w", device, err)
	}
	said, code, err := m.cfg.Command(ctx, "blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device)
	switch {
	case err != nil:
		return "", err
	case code == 2:
		return "", nil
	case code != 0:
		return "", fmt.Errorf("blkid ended with %d: %s", code, said)
	}
	other := ""
	for _, line := range strings.Split(said, "\n") {
		switch key, value, _ := strings.Cut(line, "="); key {
		case "TYPE":
			return value, nil
		case "PTTYPE":
			other = value
		}
	}
	if other == "" {
		return "", fmt.Errorf("blkid says nothing of %s: %s", device, said)
	}
	return "", fmt.Errorf("%s has partitions (%s), and no file system", device, other)
}

// formatting are the arguments with which a file system of a kind is made.
func formatting(kind, device string) []string {
	switch kind {
	case "ext3", "ext4":
		return []string{"-F", "-m0", device} // without asking, and without room for root alone
	case "xfs":
		return []string{"-f", device}
	}
	return []string{device}
}

// must runs a program that has to end well.
func (m *Manager) must(ctx context.Context, name string, args ...string) error {
	said, code, err := m.cfg.Command(ctx, name, args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s %s: exit status %d: %s", name, strings.Join(args, " "), code, said)
	}
	return err
}
