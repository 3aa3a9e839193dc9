package collect

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"howdah.dev/nodeagent/internal/logs"
	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
)

// maxLine bounds a line that is put together of parts, in bytes; what is longer becomes several.
const maxLine = 64 << 10

// cursor is how far a run was read: all that decides what becomes of the next bytes.
type cursor struct {
	file   int   // index of the file
	offset int64 // in it
	parts  [2]part
	bucket bucket
	drops  drops
	lost   int64 // lines that were dropped, in all
}

// part is the beginning of a line whose end is not read yet, of the standard output or the standard error.
type part struct {
	text   []byte
	at     time.Time
	file   int // where it begins
	offset int64
}

// drops are lines that were dropped, and of which it is not said yet.
type drops struct {
	lines, bytes int64
	position     int64     // of the last of them
	at           time.Time // of the last of them
}

// clone returns a cursor that does not change with the other.
func (c cursor) clone() cursor {
	for i := range c.parts {
		c.parts[i].text = slices.Clone(c.parts[i].text)
	}
	return c
}

// resume is where to read again from for what is not sent yet.
func (c *cursor) resume() (file int, offset int64) {
	file, offset = c.file, c.offset
	for i := range c.parts {
		if p := &c.parts[i]; p.text != nil && (p.file < file || p.file == file && p.offset < offset) {
			file, offset = p.file, p.offset
		}
	}
	return file, offset
}

// line takes in a line of the file as the runtime wrote it; begin is its offset and position where the run ends with it. What is whole is given to emit.
func (c *cursor) line(raw []byte, begin, position int64, rate float64, emit func(*logsv1.Entry)) {
	l, err := logs.ParseEntry(raw)
	if err != nil {
		return // not written by the runtime
	}
	source, p := logsv1.Source_SOURCE_STDOUT, &c.parts[0]
	if l.Stderr {
		source, p = logsv1.Source_SOURCE_STDERR, &c.parts[1]
	}
	text := l.Text
	if p.text != nil {
		p.text = append(p.text, l.Text...)
		text = p.text
	}
	if l.Partial && len(text) < maxLine {
		if p.text == nil {
			*p = part{text: append(make([]byte, 0, 2*len(l.Text)+1), l.Text...), at: l.Time, file: c.file, offset: begin}
		}
		return
	}
	*p = part{}
	if !l.Partial {
		text = bytes.TrimSuffix(text, []byte("\r"))
	}
	c.whole(text, l.Time, position, source, rate, emit)
}

// end gives what a run that is over has left behind.
func (c *cursor) end(position int64, rate float64, emit func(*logsv1.Entry)) {
	for i := range c.parts {
		p := c.parts[i]
		if c.parts[i] = (part{}); p.text != nil {
			c.whole(p.text, p.at, position+int64(i)+1, logsv1.Source(i+1), rate, emit)
		}
	}
	c.tell(emit)
}

// whole gives a line, unless the container writes too much.
func (c *cursor) whole(text []byte, at time.Time, position int64, source logsv1.Source, rate float64, emit func(*logsv1.Entry)) {
	if !c.bucket.take(at, len(text), rate) {
		c.drops.lines++
		c.lost++
		c.drops.bytes += int64(len(text))
		c.drops.position, c.drops.at = position, at
		return
	}
	c.tell(emit)
	emit(&logsv1.Entry{Position: position, Time: at.UnixNano(), Source: source, Text: slices.Clone(text)})
}

// tell says of lines that were dropped, in their place.
func (c *cursor) tell(emit func(*logsv1.Entry)) {
	d := c.drops
	if c.drops = (drops{}); d.lines == 0 {
		return
	}
	emit(&logsv1.Entry{
		Position: d.position, Time: d.at.UnixNano(), Source: logsv1.Source_SOURCE_NOTE,
		Text: fmt.Appendf(nil, "%d lines (%d bytes) were dropped here: the container writes more than is kept", d.lines, d.bytes),
	})
}
