package pgtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// watchScript waits for the end of its standard input, whose other end only the test process holds, then removes the server.
const watchScript = `cat >/dev/null
for file in $(find "$1" -name pg_autoctl.pid 2>/dev/null); do kill -KILL -- "-$(head -n 1 "$file")"; done 2>/dev/null  # each leads a group: its services go along
for file in "$1"/*/postmaster.pid; do pid=$(head -n 1 "$file" 2>/dev/null) && kill -CONT "$pid" && kill -QUIT "$pid"; done 2>/dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" 2>/dev/null
i=0
while [ $i -lt 50 ] && [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.1; i=$((i+1)); done
rm -rf "$1"`

// watch starts the process that cleans up after the test binary, even when that is killed.
func (s *Server) watch() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd := exec.Command("/bin/sh", "-c", watchScript, "sh", s.dir)
	cmd.Stdin = read
	// A group of its own, so that a Ctrl-C for the tests does not end it before its work.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the watcher: %w", err)
	}
	go cmd.Wait()
	s.watcher = write
	return nil
}

// children lists the processes whose parent is pid.
func children(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var result []int
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent ...; the name may hold anything, so look behind its bracket.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			result = append(result, child)
		}
	}
	return result
}

// isPostgres guards against a process number that was given to somebody else, or a process that is dead but not yet reaped.
func isPostgres(pid int) bool { return isNamed(pid, "postgres") }

func isNamed(pid int, name string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	return bytes.Contains(text, []byte("("+name+")")) && len(fields) > 0 && fields[0] != "Z"
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
