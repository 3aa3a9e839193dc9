package collect

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
)

// Sizes.
const (
	// block is how much of a file is read at a time, in bytes; a line of the file is shorter, as the runtime writes parts of 16 KiB.
	block = 64 << 10
	// maxFiles is how many files of a run may wait to be read: as many as the node keeps of it, and some that it has removed.
	maxFiles = 8
	// leap is how far positions go on where it is not known how much is missing: further than anything that may be on its way.
	leap = 1 << 40
)

// key names a run: its files are <namespace>_<pod>_<uid>/<container>/<attempt>.log.
type key struct {
	Namespace, Pod, UID, Container string
	Attempt                        int
}

// folder is where a run's files are, below the folder of the logs.
func (k key) folder() string { return filepath.Join(k.Namespace+"_"+k.Pod+"_"+k.UID, k.Container) }

// parsePod reads the name of a pod's folder.
func parsePod(name string) (namespace, pod, uid string, ok bool) {
	namespace, rest, ok1 := strings.Cut(name, "_")
	pod, uid, ok2 := strings.Cut(rest, "_")
	return namespace, pod, uid, ok1 && ok2 && utf8.ValidString(name) && namespace != "" && pod != "" && uid != ""
}

// parseFile reads the name of a file: <attempt>.log, or <attempt>.log.<time> where rotation has put it aside.
func parseFile(name string) (attempt int, ok bool) {
	number, rest, found := strings.Cut(name, ".log")
	if !found || rest != "" && (rest[0] != '.' || strings.HasSuffix(rest, ".gz") || strings.HasSuffix(rest, ".tmp")) {
		return 0, false
	}
	attempt, err := strconv.Atoi(number)
	return attempt, err == nil && attempt >= 0 && strconv.Itoa(attempt) == number
}

// inode tells a file from others as long as it is there.
type inode struct{ Dev, Ino uint64 }

func inodeOf(info os.FileInfo) inode {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return inode{uint64(s.Dev), s.Ino}
	}
	return inode{}
}

// file is one file of a run, open as long as it is not read to its end: rotation and the pod's end may remove it meanwhile.
type file struct {
	*os.File
	inode
	name string
	base int64 // position of its beginning; it is known once the file before was read
	tick int   // when it was found
	gone bool  // it was given up, at its end
	end  int64
}

func (f *file) size() int64 {
	if f.gone {
		return f.end
	}
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// run is a container from its start to its end.
type run struct {
	key
	id      string
	files   []*file // oldest first
	read    map[string]bool
	cursor  cursor
	removed bool // its files are gone from the folder
	over    bool // a later run has begun: nothing more is written
	cut     bool // somebody has emptied the file that is read
	done    bool // all is sent that ever will be, and files holds the last one, closed
	last    saved

	unknown time.Time // since when the service refuses it for now
	pause   time.Duration
	wait    time.Time
	lost    int64 // bytes that could not be read, and of which it is not said yet
}

// close gives its files back.
func (r *run) close() {
	for _, f := range r.files {
		_ = f.Close() // read only
	}
	r.files = nil
}

// backlog is how many bytes are to be read.
func (r *run) backlog() int64 {
	var sum int64
	for i, f := range r.files {
		if i >= r.cursor.file {
			sum += f.size()
		}
	}
	return max(sum-r.cursor.offset, 0)
}

// follow takes in which files there are, oldest first. It returns how many bytes were given up for want of room.
func (r *run) follow(dir string, names []string, tick int) (lost int64) {
	for _, name := range names {
		if r.read[name] {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue // gone meanwhile
		}
		id := inodeOf(info)
		if i := slices.IndexFunc(r.files, func(f *file) bool { return f.inode == id }); i >= 0 {
			r.files[i].name = name // rotation has renamed it
			continue
		}
		opened, err := os.Open(path)
		if err != nil {
			continue
		}
		if info, err = opened.Stat(); err != nil {
			_ = opened.Close()
			continue
		}
		r.files = append(r.files, &file{File: opened, inode: inodeOf(info), name: name, tick: tick})
	}
	for len(r.files)-r.cursor.file > maxFiles {
		lost += r.giveUp()
	}
	for name := range r.read {
		if !slices.Contains(names, name) {
			delete(r.read, name)
		}
	}
	return lost
}

// giveUp goes on with the next file, and returns how many bytes are lost.
func (r *run) giveUp() int64 {
	r.cursor.parts = [2]part{}
	f := r.files[r.cursor.file]
	missing := max(f.size()-r.cursor.offset, 0)
	r.lost += missing
	f.end = f.size()
	f.gone = true
	_ = f.Close() // read only; its room is given back, though a batch that was read from it may be on its way
	r.next(f.end)
	return missing
}

// next goes on behind the end of a file.
func (r *run) next(end int64) {
	f := r.files[r.cursor.file]
	if r.cursor.file+1 < len(r.files) {
		r.files[r.cursor.file+1].base = f.base + end
	}
	r.cursor.file, r.cursor.offset = r.cursor.file+1, 0
}

// release closes the files that nobody goes back to, and returns how many.
func (r *run) release() int {
	n, _ := r.cursor.resume()
	for _, f := range r.files[:n] {
		r.read[f.name] = true
		_ = f.Close() // read only
	}
	r.files = r.files[n:]
	r.cursor.file -= n
	for i := range r.cursor.parts {
		r.cursor.parts[i].file -= n
	}
	return n
}

// truncated goes to the beginning of a file that somebody has emptied, and reports whether it was.
func (r *run) truncated() bool {
	if !r.cut || r.cursor.file >= len(r.files) {
		return false
	}
	f := r.files[r.cursor.file]
	r.cut = false
	r.cursor.parts = [2]part{}
	f.base += r.cursor.offset
	r.cursor.offset = 0
	return true
}

// position is where the run ends at an offset of the cursor's file.
func (r *run) position(offset int64) int64 {
	if r.cursor.file < len(r.files) {
		return r.files[r.cursor.file].base + offset
	}
	if n := len(r.files); n > 0 {
		return r.files[n-1].base + r.files[n-1].size()
	}
	return 0
}

// gather reads at most so many bytes, and gives whole lines to emit. tick is the present one: a file is at its end when its successor was there at one
// before, as the runtime may write to it for a moment still.
func (r *run) gather(buffer []byte, most int, tick int, rate float64, emit func(*logsv1.Entry)) (n int, err error) {
	for n < most && r.cursor.file < len(r.files) {
		f := r.files[r.cursor.file]
		if f.gone {
			r.next(f.end)
			continue
		}
		if r.lost > 0 {
			at := time.Now()
			emit(&logsv1.Entry{Position: r.position(r.cursor.offset) + 1, Time: at.UnixNano(), Source: logsv1.Source_SOURCE_NOTE, Text: []byte(strconv.FormatInt(r.lost, 10) + " bytes before this are lost: they could not be sent in time")})
			r.lost = 0
		}
		read, err := f.ReadAt(buffer, r.cursor.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		used := 0
		for used < read {
			end := bytes.IndexByte(buffer[used:read], '\n')
			if end < 0 {
				break
			}
			begin := r.cursor.offset
			r.cursor.offset += int64(end + 1)
			r.cursor.line(buffer[used:used+end], begin, r.position(r.cursor.offset), rate, emit)
			used += end + 1
		}
		n += used
		if used > 0 {
			continue
		}
		if read == len(buffer) { // no line is so long
			r.cursor.offset += int64(read)
			n += read
			continue
		}
		if read == 0 && f.size() < r.cursor.offset {
			r.cut = true
			return n, nil
		}
		last := r.cursor.file == len(r.files)-1
		if last && !r.removed && !r.over || !last && r.files[r.cursor.file+1].tick >= tick {
			return n, nil // more may come
		}
		if read > 0 { // its last line has no end
			begin := r.cursor.offset
			r.cursor.offset += int64(read)
			r.cursor.line(buffer[:read], begin, r.position(r.cursor.offset), rate, emit)
			n += read
		}
		if last {
			r.cursor.end(r.position(r.cursor.offset), rate, emit)
		}
		r.next(r.cursor.offset)
	}
	return n, nil
}

// rewind goes back to where a batch began; told is how many bytes it said are lost.
func (r *run) rewind(before cursor, told int64) {
	r.cursor = before
	r.lost += told
}
