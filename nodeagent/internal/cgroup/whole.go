package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"howdah.dev/nodeagent/internal/container"
)

// Whole is what all pods together get: shares of the CPUs for thousandths of a core, bytes of memory, and processes with their threads. What is 0 is not
// bounded.
type Whole struct{ CPU, Memory, PIDs int64 }

// Bound has all pods together get no more than that. Memory that they hold already is not taken back: as long as they hold more, it is an error.
func (t *Tree) Bound(w Whole) error {
	path := filepath.Join("/", t.prefix, "kubepods")
	if err := t.create(path); err != nil {
		return fmt.Errorf("control group of all pods: %w", err)
	}
	var problems []error
	if w.CPU > 0 {
		problems = append(problems, t.shares(path, container.Shares(w.CPU)))
	}
	return errors.Join(append(problems, t.boundMemory(path, w.Memory), t.boundPIDs(path, w.PIDs))...)
}

// Unbound takes back what an agent before this one may have bounded.
func (t *Tree) Unbound() error {
	path := filepath.Join("/", t.prefix, "kubepods")
	if err := t.create(path); err != nil {
		return fmt.Errorf("control group of all pods: %w", err)
	}
	files := map[string]string{path + "/memory.max": "max", path + "/pids.max": "max"}
	if !t.unified {
		files = map[string]string{"memory/" + path + "/memory.limit_in_bytes": "-1", "pids/" + path + "/pids.max": "max"}
	}
	var problems []error
	for file, value := range files {
		if err := t.write(file, value); !errors.Is(err, fs.ErrNotExist) { // a controller that is not there bounds nothing
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
