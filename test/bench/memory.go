package main

import (
	"context"
	"fmt"
	"time"
)

// atRest is how long a control plane is left alone before its memory at rest is read.
const atRest = 45 * time.Second

// memory reports what the scenarios before it have left behind: the memory of the control plane at once, at its peak, and at rest.
func memory(ctx context.Context, b *bench) error {
	if b.target == nil {
		return nil // services reports those of a cluster
	}
	if err := b.held(peak, peakMiB, 0); err != nil {
		return err
	}
	if err := b.held(afterTheRun+", at once", residentMiB, 0); err != nil {
		return err
	}
	b.cpu.heap(ctx, "after the run")
	if err := pause(ctx, atRest); err != nil {
		return err
	}
	if err := b.held(afterTheRun, residentMiB, atRest); err != nil {
		return err
	}
	if b.target.database == 0 || b.target.kubernetes() {
		return nil // etcd's is told already
	}
	mib, err := treeMiB(b.target.database)
	if err != nil {
		return err
	}
	b.report(figure{Scenario: "memory of PostgreSQL after the run", MiB: mib, Note: "all its processes, what they share counted once"})
	return nil
}

// held reports what the processes hold that are to be compared: howdah's, which keeps its caches itself, or kube-apiserver and etcd.
func (b *bench) held(scenario string, read func(pid int) (float64, error), after time.Duration) error {
	mib, err := read(b.target.server)
	if err != nil {
		return err
	}
	f := figure{Scenario: scenario, Seconds: after.Seconds(), MiB: mib, Note: b.target.note}
	if b.target.kubernetes() {
		etcd, err := read(b.target.database)
		if err != nil {
			return err
		}
		f.MiB += etcd
		f.Note = fmt.Sprintf("kube-apiserver %.0f, etcd %.0f; without the controller manager", mib, etcd)
	}
	b.report(f)
	return nil
}
