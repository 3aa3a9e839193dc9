package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"
)

// FileConfig says where events are written, a JSON object a line.
type FileConfig struct {
	// Path of the file; "-" is the standard output.
	Path string
	// MaxSize in MB rotates the file; MaxAge in days and MaxBackups bound the old ones. 0: 100 MB, and no bounds.
	MaxSize, MaxAge, MaxBackups int
	Compress                    bool
	// Batch writes in the background, and so loses what was not written yet when the process dies; otherwise a request waits until
	// its events are written.
	Batch bool
}

// file is the log backend.
type file struct {
	lost  *losses
	mu    sync.Mutex
	out   io.Writer
	queue *queue // nil: blocking
}

func newFile(cfg FileConfig, metrics *Metrics, clock clock.WithTicker) (*file, error) {
	f := &file{lost: &losses{backend: "log", metrics: metrics, clock: clock}}
	if cfg.Path == "-" {
		f.out = os.Stdout
	} else {
		handle, err := os.OpenFile(cfg.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		_ = handle.Close()
		f.out = &lumberjack.Logger{Filename: cfg.Path, MaxSize: cfg.MaxSize, MaxAge: cfg.MaxAge, MaxBackups: cfg.MaxBackups, Compress: cfg.Compress}
	}
	if cfg.Batch {
		f.queue = newQueue(batching{Buffer: 10_000, Size: 100, Wait: 0}, clock, f.lost.add)
	}
	return f, nil
}

func (f *file) record(e auditv1.Event) {
	if f.queue != nil {
		f.queue.put(e)
		return
	}
	f.write([]auditv1.Event{e})
}

func (f *file) write(events []auditv1.Event) {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for i := range events {
		if err := encoder.Encode(&events[i]); err != nil {
			f.lost.add(1, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.out.Write(lines.Bytes()); err != nil {
		f.lost.add(len(events), err)
	}
}

func (f *file) run(ctx context.Context) error {
	if f.queue == nil {
		<-ctx.Done()
	} else {
		f.queue.run(ctx, func(_ context.Context, events []auditv1.Event) { f.write(events) })
	}
	if closer, ok := f.out.(*lumberjack.Logger); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = closer.Close()
	}
	return nil
}
