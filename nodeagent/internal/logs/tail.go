package logs

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

const block = 64 << 10

// tailOffset returns where the last n lines of a file begin, and how many of
// them the file has.
func tailOffset(file io.ReaderAt, size, n int64) (offset, found int64, _ error) {
	if n <= 0 {
		return size, 0, nil
	}
	buffer := make([]byte, block)
	end := size
	for end > 0 {
		begin := max(end-block, 0)
		part := buffer[:end-begin]
		if _, err := file.ReadAt(part, begin); err != nil && err != io.EOF {
			return 0, 0, err
		}
		for i := len(part) - 1; i >= 0; i-- {
			// The end of the last line belongs to it.
			if part[i] != '\n' || begin+int64(i) == size-1 {
				continue
			}
			if found++; found == n {
				return begin + int64(i) + 1, found, nil
			}
		}
		end = begin
	}
	if size > 0 {
		found++
	}
	return 0, found, nil
}

// Files returns a container's log files, oldest first: those that rotation
// has put aside, and path itself.
func Files(path string) []string {
	rotated, err := filepath.Glob(path + ".*")
	if err != nil {
		rotated = nil
	}
	sort.Strings(rotated) // their names end with the time
	return append(rotated, path)
}

// LastLines returns the text of a log file's last lines, at most so many and
// so many bytes, "" where the file cannot be read.
func LastLines(path string, lines, limit int) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	offset, _, err := tailOffset(file, info.Size(), int64(lines))
	if err != nil {
		return ""
	}
	data, err := io.ReadAll(io.NewSectionReader(file, offset, info.Size()-offset))
	if err != nil {
		return ""
	}
	var text strings.Builder
	for _, raw := range bytes.SplitAfter(data, []byte("\n")) {
		if l, err := parse(raw); err == nil {
			text.Write(l.content)
			if !l.partial {
				text.WriteByte('\n')
			}
		}
	}
	out := text.String()
	return out[max(len(out)-limit, 0):]
}
