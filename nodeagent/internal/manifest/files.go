package manifest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// settle is how long a file has to be left alone before it is read: who writes it may do so bit by bit.
const settle = 100 * time.Millisecond

// Files reads the manifests of a folder, or a single one.
type Files struct {
	Path  string
	Node  string
	Every time.Duration // how often to look though nothing was heard
	Clock clock.WithTicker
	// Report is told of every place what was wrong with it, nil where nothing was.
	Report func(place string, err error)

	good map[string]*corev1.Pod // by path, the last that was right
}

// Name implements source.Manifests.
func (f *Files) Name() string { return File }

// Run tells of all pods of the folder, and again when that may have changed, until ctx ends.
func (f *Files) Run(ctx context.Context, tell func([]*corev1.Pod)) error {
	events, errs, watch, stop := f.watcher()
	defer stop()
	for {
		watch() // again where the folder has come, or is another one
		if pods, err := f.read(); err == nil {
			tell(pods)
		}
		timer := f.Clock.NewTimer(f.Every)
	quiet:
		for {
			select {
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			case e := <-events:
				if f.concerned(e.Name) {
					if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
						f.gone(e.Name, tell)
					}
					timer.Stop()
					timer = f.Clock.NewTimer(settle)
				}
			case err := <-errs:
				slog.Warn("watch the manifests of pods", "path", f.Path, "err", err)
			case <-timer.C():
				break quiet
			}
		}
	}
}

// gone tells that a manifest has gone, though another may have taken its place by now: its pod ends, and starts anew, also where both say the same.
func (f *Files) gone(path string, tell func([]*corev1.Pod)) {
	if f.good[path] == nil {
		return
	}
	delete(f.good, path)
	f.Report(path, nil)
	pods := make([]*corev1.Pod, 0, len(f.good))
	for _, path := range slices.Sorted(maps.Keys(f.good)) {
		pods = append(pods, f.good[path])
	}
	tell(pods)
}

// watcher hears of changes; where the kernel has no more of them to give, the folder is looked at every now and then.
func (f *Files) watcher() (<-chan fsnotify.Event, <-chan error, func(), func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		slog.Warn("watch the manifests of pods", "path", f.Path, "err", err)
		return nil, nil, func() {}, func() {}
	}
	watch := func() {
		dir := f.Path
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			dir = filepath.Dir(dir)
		}
		if err := w.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			slog.Warn("watch the manifests of pods", "path", dir, "err", err)
		}
	}
	return w.Events, w.Errors, watch, func() { _ = w.Close() }
}

// concerned says whether a change may be one of the manifests.
func (f *Files) concerned(path string) bool {
	return path == f.Path || filepath.Dir(path) == filepath.Clean(f.Path) && !hidden(filepath.Base(path))
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// read returns all pods. What runs from a file that is wrong runs on, until the file is right or gone; an error says that nothing is known.
func (f *Files) read() ([]*corev1.Pod, error) {
	paths, err := f.list()
	if f.Report(f.Path, err); err != nil {
		return nil, err
	}
	good, names := map[string]*corev1.Pod{}, map[types.NamespacedName]string{}
	var pods []*corev1.Pod
	for _, path := range paths {
		p, err := f.file(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			p = f.good[path]
		}
		if p != nil {
			name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
			if other := names[name]; other != "" {
				p, err = nil, fmt.Errorf("pod %s is that of %s already", name, other)
			} else {
				names[name] = path
			}
		}
		f.Report(path, err)
		if p != nil {
			good[path] = p
			pods = append(pods, p)
		}
	}
	for path := range f.good {
		if good[path] == nil {
			f.Report(path, nil)
		}
	}
	f.good = good
	return pods, nil
}

// list returns the paths of the manifests, in order. A folder that is not there has none.
func (f *Files) list() ([]string, error) {
	info, err := os.Stat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{f.Path}, nil
	}
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		path := filepath.Join(f.Path, e.Name())
		if info, err := os.Stat(path); hidden(e.Name()) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		paths = append(paths, path)
	}
	return paths, nil
}

func (f *Files) file(path string) (*corev1.Pod, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > largest {
		return nil, fmt.Errorf("it is longer than %d bytes", largest)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pods, err := Read(data, Origin{Source: File, Place: path, Node: f.Node, Seen: f.Clock.Now()})
	if err != nil {
		return nil, err
	}
	return pods[0], nil
}
