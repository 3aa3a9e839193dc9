// Package logs reads the log files that the runtime writes, follows them as
// they grow, and rotates them.
package logs

import (
	"bytes"
	"errors"
	"time"
)

// line is one line of a log file: "<time> <stream> <tags> <content>".
type line struct {
	at      time.Time
	stamp   []byte // the time as written
	stream  string
	partial bool   // the next line continues it
	content []byte // without the end of the line
}

var errMalformed = errors.New("malformed log line")

// parse reads a line; its parts point into raw.
func parse(raw []byte) (line, error) {
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	stamp, rest, ok := bytes.Cut(raw, []byte(" "))
	if !ok {
		return line{}, errMalformed
	}
	stream, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok || (string(stream) != "stdout" && string(stream) != "stderr") {
		return line{}, errMalformed
	}
	tags, content, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		tags, content = rest, nil
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return line{}, errMalformed
	}
	first, _, _ := bytes.Cut(tags, []byte(":"))
	return line{at, stamp, string(stream), string(first) == "P", content}, nil
}

// Entry is a line of a log file, for those who collect them. Its text points into what was parsed.
type Entry struct {
	Time    time.Time
	Stderr  bool
	Partial bool // the next line of the same stream continues it
	Text    []byte
}

// ParseEntry reads a line.
func ParseEntry(raw []byte) (Entry, error) {
	l, err := parse(raw)
	return Entry{l.at, l.stream == "stderr", l.partial, l.content}, err
}
