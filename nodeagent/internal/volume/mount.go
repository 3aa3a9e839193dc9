package volume

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Mounter is what the volumes need of the kernel.
type Mounter interface {
	// Tmpfs mounts memory at path; size is in bytes, 0 is the kernel's choice.
	Tmpfs(path string, size int64) error
	// HugePages mounts pages of a size in bytes at path.
	HugePages(path string, size int64) error
	// Bind mounts an open file or folder at path.
	Bind(file *os.File, path string) error
	// Unmount removes the mount at path.
	Unmount(path string) error
	// Below returns the mount points at or below path, innermost first.
	Below(path string) ([]string, error)
}

// Kernel is the Mounter of this machine.
type Kernel struct{}

// Tmpfs implements Mounter. What is in it, which may be a secret, does not get to swap space, unless the agent is in a user namespace: there the kernel
// has no such mounts.
func (Kernel) Tmpfs(path string, size int64) error {
	data := "mode=0777"
	if size > 0 {
		data += fmt.Sprintf(",size=%d", size)
	}
	mount := func(data string) error {
		return unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, data)
	}
	err := mount(data + ",noswap")
	if errors.Is(err, unix.EINVAL) {
		err = mount(data)
	}
	return named("mount tmpfs", path, err)
}

// HugePages implements Mounter.
func (Kernel) HugePages(path string, size int64) error {
	return named("mount hugetlbfs", path, unix.Mount("nodev", path, "hugetlbfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("pagesize=%d,mode=0777", size)))
}

// Bind implements Mounter.
func (Kernel) Bind(file *os.File, path string) error {
	source := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	return named("bind mount", path, unix.Mount(source, path, "", unix.MS_BIND|unix.MS_REC, ""))
}

// Unmount implements Mounter.
func (Kernel) Unmount(path string) error {
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	return named("unmount", path, err)
}

// Below implements Mounter.
func (Kernel) Below(path string) ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var points []string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescape.Replace(fields[4])
		if point == path || strings.HasPrefix(point, path+string(filepath.Separator)) {
			points = append([]string{point}, points...) // later mounts lie on earlier ones
		}
	}
	return points, scanner.Err()
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func named(what, path string, err error) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, path, err)
	}
	return nil
}
