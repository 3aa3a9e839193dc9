package logs

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Watcher tells followers that something in their folder changed. All share
// one inotify instance, of which a machine has few.
type Watcher struct {
	fs *fsnotify.Watcher // nil where the machine has none left

	mu      sync.Mutex
	folders map[string]map[chan struct{}]bool
}

// NewWatcher returns a Watcher. Without inotify its followers hear nothing,
// and look once a second.
func NewWatcher() *Watcher {
	w := &Watcher{folders: map[string]map[chan struct{}]bool{}}
	notifier, err := fsnotify.NewWatcher()
	if err != nil {
		slog.Warn("no inotify; logs are followed by polling", "err", err)
		return w
	}
	w.fs = notifier
	return w
}

// Run hands events on until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	if w.fs == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	defer w.fs.Close()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event := <-w.fs.Events:
			w.tell(filepath.Dir(event.Name))
		case err := <-w.fs.Errors:
			slog.Warn("inotify", "err", err)
		}
	}
}

func (w *Watcher) tell(folder string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for signal := range w.folders[folder] {
		select {
		case signal <- struct{}{}:
		default:
		}
	}
}

// Subscribe returns a channel that receives after changes in the folder, and
// the function that ends it.
func (w *Watcher) Subscribe(folder string) (<-chan struct{}, func()) {
	folder = filepath.Clean(folder)
	signal := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.folders[folder] == nil {
		w.folders[folder] = map[chan struct{}]bool{}
		if w.fs != nil {
			if err := w.fs.Add(folder); err != nil {
				slog.Warn("watch a log folder", "folder", folder, "err", err)
			}
		}
	}
	w.folders[folder][signal] = true
	return signal, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.folders[folder], signal)
		if len(w.folders[folder]) == 0 {
			delete(w.folders, folder)
			if w.fs != nil {
				_ = w.fs.Remove(folder) // it may be gone already
			}
		}
	}
}
