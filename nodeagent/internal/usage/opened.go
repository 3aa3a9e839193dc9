package usage

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Opened reads what the processes of a group have opened; false where there are none. It costs a call of the kernel for each, so it is read for those who ask
// for it alone.
func (g *Gatherer) Opened(group string) (Opened, bool) {
	processes := g.cfg.Groups.Processes(group)
	var out Opened
	for i, pid := range processes {
		dir := filepath.Join(g.cfg.Proc, strconv.Itoa(pid))
		if i == 0 {
			out.MaxFiles = maxFiles(filepath.Join(dir, "limits"))
		}
		files, err := os.Open(filepath.Join(dir, "fd"))
		if err != nil {
			continue // it has just ended
		}
		names, _ := files.Readdirnames(-1)
		_ = files.Close()
		for _, name := range names {
			target, err := os.Readlink(filepath.Join(dir, "fd", name))
			if err != nil {
				continue // it has just been closed
			}
			out.Descriptors++
			if strings.HasPrefix(target, "socket:") {
				out.Sockets++
			}
		}
	}
	return out, len(processes) > 0
}

// maxFiles is the soft limit of open files in a file as /proc/PID/limits (proc_pid_limits(5)).
func maxFiles(path string) *int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		rest, found := strings.CutPrefix(line, "Max open files")
		fields := strings.Fields(rest)
		if !found || len(fields) == 0 {
			continue
		}
		limit := int64(-1)
		if fields[0] != "unlimited" {
			if limit, err = strconv.ParseInt(fields[0], 10, 64); err != nil {
				return nil
			}
		}
		return &limit
	}
	return nil
}
