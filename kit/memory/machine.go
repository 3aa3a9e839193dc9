package memory

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// machineMemory is how much memory, in bytes, the machine has, or this container, if that is less; 0 where nothing tells. root is "/".
func machineMemory(root string) uint64 {
	least := uint64(0)
	for _, limit := range []uint64{
		total(filepath.Join(root, "proc/meminfo")),
		number(filepath.Join(root, "sys/fs/cgroup/memory.max")),
		number(filepath.Join(root, "sys/fs/cgroup/memory/memory.limit_in_bytes")),
	} {
		if limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least
}

// total is the line MemTotal of /proc/meminfo, which is in kB (proc_meminfo(5)).
func total(path string) uint64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 54)
			return kb << 10
		}
	}
	return 0
}

// number is what a file of a control group says; 0 for none, or for "max".
func number(path string) uint64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n
}
