package usage

import (
	"os"
	"path/filepath"
	"strings"
)

// device is the name of a block device below /dev, as "/dev/vda", by its number, as "8:0". A number that the kernel names no device by stays: those of file
// systems without one.
//
// Dashboards choose disks by such names.
func device(sys, number string) string {
	data, err := os.ReadFile(filepath.Join(sys, "dev/block", number, "uevent"))
	if err != nil {
		return number
	}
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
			return "/dev/" + name
		}
	}
	return number
}
