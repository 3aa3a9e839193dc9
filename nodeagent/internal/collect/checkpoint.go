package collect

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"howdah.dev/nodeagent/internal/statefile"
)

// saved is what outlives the agent of a run.
type saved struct {
	Namespace, Pod, UID, Container string
	Attempt                        int
	ID                             string
	File                           inode // where to read on
	Offset                         int64
	Base                           int64    // position of the file's beginning
	Read                           []string `json:",omitempty"` // names of files that were read to their ends
	Done                           bool     `json:",omitempty"`
	Bucket                         bucket
}

func (s *saved) key() key { return key{s.Namespace, s.Pod, s.UID, s.Container, s.Attempt} }

// save is the run as it was sent.
func (r *run) save() saved {
	s := saved{Namespace: r.Namespace, Pod: r.Pod, UID: r.UID, Container: r.Container, Attempt: r.Attempt, ID: r.id, Done: r.done, Bucket: r.cursor.bucket}
	for name := range r.read {
		s.Read = append(s.Read, name)
	}
	slices.Sort(s.Read)
	at, offset := r.cursor.resume()
	switch {
	case r.done || len(r.files) == 0:
		s.File, s.Offset, s.Base = r.last.File, r.last.Offset, r.last.Base
	case at < len(r.files):
		s.File, s.Offset, s.Base = r.files[at].inode, offset, r.files[at].base
	default:
		f := r.files[len(r.files)-1]
		s.File, s.Offset, s.Base = f.inode, f.size(), f.base
	}
	return s
}

// restore goes on where the agent was before it ended: r has just found its files. It reports whether positions go on elsewhere, which has to be
// noted before anything is sent.
func (r *run) restore(s saved) (leapt bool) {
	r.id, r.last, r.cursor.bucket = s.ID, s, s.Bucket
	i := slices.IndexFunc(r.files, func(f *file) bool { return f.inode == s.File })
	switch {
	case i >= 0:
		r.files[i].base = s.Base
		r.cursor.file, r.cursor.offset = i, s.Offset
		r.release()
	case len(r.files) > 0: // what was being read is gone
		r.files[0].base, leapt = s.Base+s.Offset+leap, true
	}
	if s.Done {
		r.done = i >= 0 && i == 0 && len(r.files) == 1 && r.files[0].size() <= s.Offset
		if r.done {
			r.close()
		}
	}
	return leapt
}

// load reads what was saved. A file that cannot be read is as none: everything that is there is sent anew, and the service knows what it has.
func load(path string) map[key]saved {
	var all []saved
	if err := statefile.Read(path, &all); err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Warn("what was collected of logs cannot be read; they are sent from the beginning", "err", err)
	}
	out := make(map[key]saved, len(all))
	for _, s := range all {
		out[s.key()] = s
	}
	return out
}

// checkpoint is the file that outlives the agent.
func checkpoint(root string) string { return filepath.Join(root, "logs", "collected.json") }
