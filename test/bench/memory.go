package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// atRest is how long a process is left alone before its memory at rest is read.
const atRest = 45 * time.Second

// memory reports what the scenarios before it have left behind: the memory of the standalone at once, at its peak, and at rest.
func memory(ctx context.Context, b *bench) error {
	if b.server == nil {
		return nil // services reports those of a cluster
	}
	pid := b.server.cmd.Process.Pid
	highest, err := peakMiB(pid)
	if err != nil {
		return err
	}
	resident, err := residentMiB(pid)
	if err != nil {
		return err
	}
	const note = "all roles and the simulated nodes in one process, without PostgreSQL"
	b.report(figure{Scenario: peak, MiB: highest, Note: note})
	b.report(figure{Scenario: afterTheRun + ", at once", MiB: resident, Note: note})
	b.cpu.heap(ctx, "after the run")
	select {
	case <-time.After(atRest):
	case <-ctx.Done():
		return ctx.Err()
	}
	if resident, err = residentMiB(pid); err != nil {
		return err
	}
	b.report(figure{Scenario: afterTheRun, Seconds: atRest.Seconds(), MiB: resident, Note: note})
	return nil
}

// peakMiB reads the most that a process has ever held.
func peakMiB(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kib float64
			_, err := fmt.Sscanf(value, "%f kB", &kib)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d does not tell its peak", pid)
}
