package cni

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Added tells of one ADD: when it began and ended, and the addresses that it gave.
type Added struct {
	Began     time.Time    `json:"began"`
	Ended     time.Time    `json:"ended"`
	Addresses []netip.Addr `json:"addresses"`
}

// Timings are the notes that ADD leaves for the agent's traces, one small file a sandbox, beside the ledger in DataDir.
// Whoever reads one removes it; DEL and GC remove those that nobody read, so there are never more than sandboxes.
type Timings struct {
	// DataDir is the plugin's; default DefaultDataDir.
	DataDir string
}

// Take returns and removes what the ADD of a sandbox left. ok is false where there is nothing, as with the node's own
// network.
func (t Timings) Take(sandbox string) (added Added, ok bool) {
	file := t.file(sandbox)
	data, err := os.ReadFile(file)
	if err != nil {
		return Added{}, false
	}
	// What cannot be removed now goes with DEL.
	_ = os.Remove(file)
	if err := json.Unmarshal(data, &added); err != nil {
		return Added{}, false
	}
	return added, true
}

func (t Timings) folder() string {
	if t.DataDir == "" {
		t.DataDir = DefaultDataDir
	}
	return filepath.Join(t.DataDir, "added")
}

// file has no path in its name, whatever the sandbox is called.
func (t Timings) file(sandbox string) string {
	return filepath.Join(t.folder(), filepath.Base(sandbox)+".json")
}

// leave writes a note. Nothing waits for the disk: after a crash of the machine there is no trace to add it to.
func (t Timings) leave(sandbox string, added Added) error {
	data, err := json.Marshal(added)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(t.folder(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(t.file(sandbox), data, 0o600)
}

// drop removes a note that nobody read.
func (t Timings) drop(sandbox string) error {
	if err := os.Remove(t.file(sandbox)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// retain removes the notes of all other sandboxes.
func (t Timings) retain(sandboxes map[string]bool) error {
	entries, err := os.ReadDir(t.folder())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	problems := []error{err}
	for _, e := range entries {
		if name := e.Name(); !sandboxes[name[:len(name)-len(filepath.Ext(name))]] {
			problems = append(problems, os.Remove(filepath.Join(t.folder(), name)))
		}
	}
	return errors.Join(problems...)
}
