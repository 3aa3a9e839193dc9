// Package plugin finds the plugins of the node: whoever puts a socket into the folder of registrations and answers there with what he is
// (pluginregistration/v1) is handed to the handler of his type: CSI drivers, device plugins, and drivers of claims.
package plugin

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

const (
	// every is how often the folder is looked at though nothing was heard.
	every = 10 * time.Second
	// settle is how long the folder has to be left alone before it is looked at.
	settle = 50 * time.Millisecond
	// retryBase and retryMax are the pauses between tries to register a plugin; each is twice the one before.
	retryBase = 500 * time.Millisecond
	retryMax  = 2 * time.Minute
	// maxSockets is how many plugins one node has at most.
	maxSockets = 256
)

// Plugin is what a plugin says of itself.
type Plugin struct {
	Type string
	Name string
	// Endpoint is the socket where it serves.
	Endpoint string
	// Versions are those of its API that it speaks.
	Versions []string
}

// Handler takes the plugins of one type into use.
type Handler interface {
	// Register begins to use a plugin, or uses it where it is now. The plugin is told of an error, and asked again later.
	Register(ctx context.Context, p Plugin) error
	// Deregister ends the use of a plugin: its socket is gone, or another's.
	Deregister(ctx context.Context, p Plugin)
}

// Config of a Watcher.
type Config struct {
	// Dir is the folder of registrations; folders in it are looked into as well.
	Dir string
	// Handlers are those of the types of plugins that the node has a use for.
	Handlers   map[string]Handler
	Clock      clock.Clock
	Registerer prometheus.Registerer
}

// Watcher keeps the plugins registered whose sockets are there.
type Watcher struct {
	cfg Config

	mu         sync.Mutex
	registered map[string]Plugin // by path of the socket of registration
	found      []string          // paths of the sockets that are there
}

// New returns a Watcher.
func New(cfg Config) *Watcher {
	w := &Watcher{cfg: cfg, registered: map[string]Plugin{}}
	for kind := range cfg.Handlers {
		cfg.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "howdah_nodeagent_plugins", Help: "Plugins that are registered, by type.", ConstLabels: prometheus.Labels{"type": kind},
		}, func() float64 { return float64(w.count(kind)) }))
	}
	cfg.Registerer.MustRegister(collector{w})
	return w
}

func (w *Watcher) count(kind string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, p := range w.registered {
		if p.Type == kind {
			n++
		}
	}
	return n
}

// socket tells one socket from another of the same path.
type socket struct {
	inode   uint64
	changed time.Time
}

// follower is the goroutine that keeps one path's plugin registered.
type follower struct {
	is     socket
	again  chan struct{} // the socket is another one
	cancel context.CancelFunc
	ended  chan struct{}
}

// Run registers plugins until ctx ends. They stay registered then: the agent's next life finds them again.
func (w *Watcher) Run(ctx context.Context) error {
	if err := os.MkdirAll(w.cfg.Dir, 0o750); err != nil {
		return err
	}
	events, errs, watch, stop := w.notices()
	defer stop()
	followers := map[string]*follower{}
	defer func() {
		for _, f := range followers {
			<-f.ended
		}
	}()
	for {
		watch()
		if found, err := sockets(w.cfg.Dir); err != nil {
			slog.Warn("list the sockets of plugins", "dir", w.cfg.Dir, "err", err)
		} else {
			w.adjust(ctx, followers, found)
			w.mu.Lock()
			w.found = slices.Collect(maps.Keys(followers))
			w.mu.Unlock()
		}
		timer := w.cfg.Clock.NewTimer(every)
	quiet:
		for {
			select {
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			case <-events:
				timer.Stop()
				timer = w.cfg.Clock.NewTimer(settle)
			case err := <-errs:
				slog.Warn("watch the sockets of plugins", "dir", w.cfg.Dir, "err", err)
			case <-timer.C():
				break quiet
			}
		}
	}
}

// notices hears of changes; where the kernel has no more of them to give, the folder is looked at every now and then.
func (w *Watcher) notices() (<-chan fsnotify.Event, <-chan error, func(), func()) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		slog.Warn("watch the sockets of plugins", "dir", w.cfg.Dir, "err", err)
		return nil, nil, func() {}, func() {}
	}
	watch := func() {
		_ = filepath.WalkDir(w.cfg.Dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				if err := watcher.Add(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
					slog.Warn("watch the sockets of plugins", "dir", path, "err", err)
				}
			}
			return nil
		})
	}
	return watcher.Events, watcher.Errors, watch, func() { _ = watcher.Close() }
}

// sockets returns the sockets below dir. Hidden files are not done yet.
func sockets(dir string) (map[string]socket, error) {
	found := map[string]socket{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != dir:
			return nil // it went meanwhile
		case err != nil:
			return err
		case e.Type()&fs.ModeSocket == 0 || strings.HasPrefix(e.Name(), "."):
			return nil
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		s := socket{changed: info.ModTime()}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			s.inode = stat.Ino
		}
		found[path] = s
		return nil
	})
	return found, err
}

// adjust has one follower for every socket.
func (w *Watcher) adjust(ctx context.Context, followers map[string]*follower, found map[string]socket) {
	for path, f := range followers {
		if _, there := found[path]; !there {
			f.cancel()
			<-f.ended
			delete(followers, path)
		}
	}
	for path, is := range found {
		f := followers[path]
		switch {
		case f == nil && len(followers) >= maxSockets:
			slog.Warn("too many sockets of plugins", "dir", w.cfg.Dir, "socket", path)
		case f == nil:
			f = &follower{is: is, again: make(chan struct{}, 1), ended: make(chan struct{})}
			var own context.Context
			own, f.cancel = context.WithCancel(ctx)
			followers[path] = f
			go w.follow(ctx, own, path, f)
		case f.is != is:
			f.is = is
			select {
			case f.again <- struct{}{}:
			default:
			}
		}
	}
}

// follow registers the plugin behind a socket, again when the socket is another one, and deregisters it when it is gone. It returns when own
// ends; whole is the watcher's context.
func (w *Watcher) follow(whole, own context.Context, path string, f *follower) {
	defer close(f.ended)
	pause := time.Duration(0)
	for own.Err() == nil {
		err := w.register(own, path)
		if err != nil && own.Err() == nil {
			slog.Warn("register a plugin", "socket", path, "err", err)
			pause = min(max(2*pause, retryBase), retryMax)
			timer := w.cfg.Clock.NewTimer(pause)
			select {
			case <-own.Done():
			case <-f.again:
				pause = 0
			case <-timer.C():
			}
			timer.Stop()
			continue
		}
		pause = 0
		select {
		case <-own.Done():
		case <-f.again:
		}
	}
	if whole.Err() == nil {
		w.deregister(whole, path)
	}
}

// register asks the plugin what it is, hands it to its handler, and tells it how that went.
func (w *Watcher) register(ctx context.Context, path string) error {
	conn, p, err := ask(ctx, path)
	if err != nil {
		return err
	}
	defer conn.Close()
	handler := w.cfg.Handlers[p.Type]
	if handler == nil {
		err = &unknownType{p.Type}
	} else {
		// Who was here before under another name is not any more.
		w.mu.Lock()
		before, known := w.registered[path]
		w.mu.Unlock()
		if known && (before.Name != p.Name || before.Type != p.Type) {
			w.deregister(ctx, path)
		}
		err = handler.Register(ctx, p)
	}
	told := tell(ctx, conn, err)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.registered[path] = p
	w.mu.Unlock()
	slog.Info("plugin registered", "type", p.Type, "name", p.Name, "endpoint", p.Endpoint)
	if told != nil { // it is used in any case
		slog.Warn("tell a plugin that it is registered", "type", p.Type, "name", p.Name, "err", told)
	}
	return nil
}

// deregister ends the use of what is registered at a path, unless the same plugin is registered at another one, too.
func (w *Watcher) deregister(ctx context.Context, path string) {
	w.mu.Lock()
	p, known := w.registered[path]
	delete(w.registered, path)
	for _, other := range w.registered {
		if other.Type == p.Type && other.Name == p.Name && other.Endpoint == p.Endpoint {
			known = false
		}
	}
	w.mu.Unlock()
	if !known {
		return
	}
	slog.Info("plugin gone", "type", p.Type, "name", p.Name, "endpoint", p.Endpoint)
	w.cfg.Handlers[p.Type].Deregister(ctx, p)
}
