package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"
)

// Formats of the file.
const (
	FormatJSON   = "json"
	FormatLegacy = "legacy"
)

// FileConfig says where events are written, a line each.
type FileConfig struct {
	// Path of the file; "-" is the standard output.
	Path   string
	Format string
	// MaxSize in MB rotates the file, 0 never; MaxAge in days and MaxBackups bound the old ones, 0 does not.
	MaxSize, MaxAge, MaxBackups int
	Compress                    bool
	// Delivery in the mode batch loses what was not written yet when the process dies.
	Delivery Delivery
}

// validate says all that is wrong, in Kubernetes' words.
func (c FileConfig) validate() error {
	errs := []error{c.Delivery.validate("log")}
	for _, n := range []struct {
		name  string
		value int
	}{{"maxage", c.MaxAge}, {"maxbackup", c.MaxBackups}, {"maxsize", c.MaxSize}} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("--audit-log-%s %v can't be a negative number", n.name, n.value))
		}
	}
	if c.Format != FormatJSON && c.Format != FormatLegacy {
		errs = append(errs, fmt.Errorf("invalid audit log format %s, allowed formats are %q", c.Format, FormatLegacy+","+FormatJSON))
	}
	return errors.Join(errs...)
}

// file is the sink of the log backend.
type file struct {
	legacy bool
	mu     sync.Mutex
	out    io.Writer
}

func newFile(cfg FileConfig, metrics *Metrics, clock clock.WithTicker) (*delivery, error) {
	f := &file{legacy: cfg.Format == FormatLegacy}
	if cfg.Path == "-" {
		f.out = os.Stdout
	} else {
		handle, err := os.OpenFile(cfg.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		f.out = handle
		if cfg.MaxSize > 0 {
			_ = handle.Close()
			f.out = &lumberjack.Logger{Filename: cfg.Path, MaxSize: cfg.MaxSize, MaxAge: cfg.MaxAge, MaxBackups: cfg.MaxBackups, Compress: cfg.Compress}
		}
	}
	return newDelivery("log", cfg.Delivery, f, 1, metrics, clock), nil
}

func (f *file) send(_ context.Context, events []auditv1.Event) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for i := range events {
		if f.legacy {
			lines.WriteString(legacy(&events[i]))
			continue
		}
		if err := encoder.Encode(&events[i]); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.out.Write(lines.Bytes())
	return err
}

func (f *file) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if closer, ok := f.out.(io.Closer); ok && f.out != os.Stdout {
		_ = closer.Close()
	}
}
