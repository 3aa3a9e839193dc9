package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Options say what of a log is wanted.
type Options struct {
	Follow     bool
	Tail       *int64 // lines
	Since      time.Time
	Timestamps bool
	Limit      *int64 // bytes
	Stream     string // "Stdout", "Stderr", or both
}

// aliveEvery is how often a follower that hears nothing asks whether the
// container still runs.
const aliveEvery = time.Second

// maxLine bounds a line. The runtime splits lines at 16 KiB by itself.
const maxLine = 1 << 20

// Reader reads logs.
type Reader struct{ watcher *Watcher }

// NewReader returns a Reader that learns of growth from watcher.
func NewReader(watcher *Watcher) *Reader { return &Reader{watcher} }

var errLimit = errors.New("the limit is reached")

// Read writes the log at path to w. With Follow it goes on until ctx ends,
// or alive says that the container has ended and all is written.
func (r *Reader) Read(ctx context.Context, path string, o Options, w io.Writer, alive func(context.Context) bool) error {
	out := &output{w: w, o: o, middle: map[string]bool{}}
	if o.Limit != nil {
		out.left, out.limited = *o.Limit, true
	}
	err := r.read(ctx, path, o, out, alive)
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

func (r *Reader) read(ctx context.Context, path string, o Options, out *output, alive func(context.Context) bool) error {
	var grown <-chan struct{}
	if o.Follow { // before the first read, so that no growth is missed
		signal, cancel := r.watcher.Subscribe(filepath.Dir(path))
		defer cancel()
		grown = signal
	}
	if err := older(ctx, path, o, out); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("failed to try resolving symlinks in path %q: %w", path, err)
	}
	defer func() { file.Close() }()
	if o.Tail != nil {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		offset, _, err := tailOffset(file, info.Size(), *o.Tail)
		if err != nil {
			return err
		}
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			return err
		}
	}
	lines := bufio.NewReaderSize(file, block)
	var pending []byte
	for {
		pending, err = copyLines(ctx, lines, pending, out)
		if err != nil || !o.Follow {
			return err
		}
		next, err := rotated(file, path)
		if err != nil {
			return err
		}
		if next != nil { // what was written before the rotation has been read
			if _, err = copyLines(ctx, lines, pending, out); err != nil {
				return errors.Join(err, next.Close())
			}
			_ = file.Close() // read only
			file, pending = next, nil
			lines.Reset(file)
			continue
		}
		if !alive(ctx) {
			_, err := copyLines(ctx, lines, pending, out)
			return err
		}
		timer := time.NewTimer(aliveEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-grown:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// older writes what is wanted of the files that rotation has put aside.
func older(ctx context.Context, path string, o Options, out *output) error {
	files := Files(path)
	files = files[:len(files)-1]
	offsets := make([]int64, len(files))
	first := 0
	if o.Tail != nil {
		left := *o.Tail
		have, err := count(path, left)
		if err != nil {
			return nil // the present file's own error is reported where it is read
		}
		left -= have
		first = len(files)
		for i := len(files) - 1; i >= 0 && left > 0; i-- {
			file, err := os.Open(files[i])
			if err != nil {
				break
			}
			info, err := file.Stat()
			if err == nil {
				offsets[i], have, err = tailOffset(file, info.Size(), left)
			}
			if errors.Join(err, file.Close()) != nil {
				break
			}
			left -= have
			first = i
		}
	}
	for i := first; i < len(files); i++ {
		if err := copyFile(ctx, files[i], offsets[i], out); err != nil {
			return err
		}
	}
	return nil
}

func count(path string, most int64) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	_, have, err := tailOffset(file, info.Size(), most)
	return have, err
}

func copyFile(ctx context.Context, path string, offset int64, out *output) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // rotated away meanwhile
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	_, err = copyLines(ctx, bufio.NewReaderSize(file, block), nil, out)
	return err
}

// copyLines writes all whole lines and returns the beginning of one that is
// not whole yet.
func copyLines(ctx context.Context, lines *bufio.Reader, pending []byte, out *output) ([]byte, error) {
	for ctx.Err() == nil {
		raw, err := lines.ReadSlice('\n')
		if len(pending)+len(raw) > maxLine {
			return nil, fmt.Errorf("a log line is longer than %d bytes", maxLine)
		}
		pending = append(pending, raw...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) {
			return pending, nil
		}
		if err != nil {
			return nil, err
		}
		if err := out.line(pending); err != nil {
			return nil, err
		}
		pending = pending[:0]
	}
	return nil, ctx.Err()
}

// rotated opens the file that path is now, nil where it is still the same.
func rotated(file *os.File, path string) (*os.File, error) {
	now, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // between two files, or gone with its pod
	}
	if err != nil {
		return nil, err
	}
	open, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if os.SameFile(now, open) {
		return nil, nil
	}
	return os.Open(path)
}

// output writes what the options want of each line.
type output struct {
	w       io.Writer
	o       Options
	left    int64
	limited bool
	middle  map[string]bool // streams whose last line was partial
}

func (out *output) line(raw []byte) error {
	l, err := parse(raw)
	if err != nil {
		return nil // not written by the runtime
	}
	if out.o.Stream == "Stdout" && l.stream != "stdout" || out.o.Stream == "Stderr" && l.stream != "stderr" {
		return nil
	}
	if l.at.Before(out.o.Since) {
		return nil
	}
	var text []byte
	if out.o.Timestamps && !out.middle[l.stream] {
		text = append(append(text, l.stamp...), ' ')
	}
	text = append(text, l.content...)
	if !l.partial {
		text = append(text, '\n')
	}
	out.middle[l.stream] = l.partial
	if out.limited && int64(len(text)) >= out.left {
		if _, err := out.w.Write(text[:out.left]); err != nil {
			return err
		}
		return errLimit
	}
	out.left -= int64(len(text))
	_, err = out.w.Write(text)
	return err
}
