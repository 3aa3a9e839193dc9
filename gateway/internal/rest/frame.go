package rest

import (
	"bytes"
	"encoding/binary"
	"mime"
	"sync"
	"sync/atomic"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/answer"
)

// framer turns watch events into the frames of one encoding.
type framer interface {
	// contentType of the whole stream.
	contentType() string
	// encoding of the objects in it.
	encoding() string
	// appendFrame appends an event's frame.
	appendFrame(to []byte, eventType string, object []byte) []byte
}

// framerFor picks the framer for objects of a content type.
func framerFor(contentType string) framer {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return jsonFramer{}
	}
	switch mediaType {
	case answer.Protobuf:
		return protobufFramer{}
	case answer.CBOR:
		return cborFramer{}
	}
	return jsonFramer{}
}

// jsonFramer writes {"type":...,"object":...} and a newline.
type jsonFramer struct{}

func (jsonFramer) contentType() string { return answer.JSON }
func (jsonFramer) encoding() string    { return answer.JSON }

func (jsonFramer) appendFrame(to []byte, eventType string, object []byte) []byte {
	object = bytes.TrimRight(object, "\n")
	to = append(to, `{"type":"`...)
	to = append(to, eventType...)
	to = append(to, `","object":`...)
	to = append(to, object...)
	return append(to, "}\n"...)
}

// frameLength is the size of the length before a protobuf frame, in bytes.
const frameLength = 4

// protobufFramer writes a length of four bytes, big-endian, and a
// metav1.WatchEvent: field 1 is its type, field 2 a RawExtension whose field
// 1 is the object with its own prefix.
type protobufFramer struct{}

func (protobufFramer) contentType() string { return answer.Protobuf + ";stream=watch" }
func (protobufFramer) encoding() string    { return answer.Protobuf }

func (protobufFramer) appendFrame(to []byte, eventType string, object []byte) []byte {
	raw := protowire.SizeTag(1) + protowire.SizeBytes(len(object))
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(eventType)) + protowire.SizeTag(2) + protowire.SizeBytes(raw)
	to = binary.BigEndian.AppendUint32(to, uint32(size))
	to = protowire.AppendTag(to, 1, protowire.BytesType)
	to = protowire.AppendString(to, eventType)
	to = protowire.AppendTag(to, 2, protowire.BytesType)
	to = protowire.AppendVarint(to, uint64(raw))
	to = protowire.AppendTag(to, 1, protowire.BytesType)
	return protowire.AppendBytes(to, object)
}

// cborFramer writes a CBOR sequence (RFC 8742): each event is a map of two
// pairs in the tag of self-described CBOR, with its keys as byte strings, as
// Kubernetes writes them. Items of a sequence have nothing between them.
type cborFramer struct{}

func (cborFramer) contentType() string { return "application/cbor-seq" }
func (cborFramer) encoding() string    { return answer.CBOR }

func (cborFramer) appendFrame(to []byte, eventType string, object []byte) []byte {
	to = append(to, "\xd9\xd9\xf7\xa2\x44type"...)
	to = append(to, 0x40|byte(len(eventType))) // types of events are shorter than 24 bytes
	to = append(to, eventType...)
	to = append(to, "\x46object"...)
	return append(to, object...)
}

// frames returns the frames of all events of a response.
func frames(f framer, events []*apiv1.WatchEvent) []byte {
	size := 0
	for _, e := range events {
		size += len(e.GetObject()) + len(e.GetType()) + 40
	}
	out := make([]byte, 0, size)
	for _, e := range events {
		out = f.appendFrame(out, e.GetType(), e.GetObject())
	}
	return out
}

// pieceBytes is from which size on frames are written, in bytes.
const pieceBytes = 128 << 10

// pieces are the buffers that frames of many events are made in. What a watch begins with is as long as a list: in memory of its own, it would
// be most of what it costs.
var pieces = sync.Pool{New: func() any { return new([]byte) }}

// inPieces gives the frames of all events to write, some at a time. write must not keep them, unless it fails.
func inPieces(f framer, events []*apiv1.WatchEvent, write func([]byte) error) error {
	buffer := pieces.Get().(*[]byte)
	b := (*buffer)[:0]
	for _, e := range events {
		if b = f.appendFrame(b, e.GetType(), e.GetObject()); len(b) < pieceBytes {
			continue
		}
		if err := write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	if err := write(b); err != nil {
		return err
	}
	if cap(b) <= 4*pieceBytes { // one large object would be kept for ever
		*buffer = b
		pieces.Put(buffer)
	}
	return nil
}

// recentFrames is how many frames are kept.
const recentFrames = 64

// frameCache keeps recent frames: where the API server is in the same process, the many watchers of an event get the very same
// bytes, and so can its frame be.
type frameCache [recentFrames]atomic.Pointer[framed]

// framed is an event in its frame. It keeps the object, so that no other can be at its place in memory.
type framed struct {
	framer    framer
	eventType string
	object    []byte
	frame     []byte
}

// of returns the frames of all events of a response, which nobody may change.
func (c *frameCache) of(f framer, events []*apiv1.WatchEvent) []byte {
	if len(events) != 1 || len(events[0].GetObject()) == 0 {
		return frames(f, events)
	}
	eventType, object := events[0].GetType(), events[0].GetObject()
	start := unsafe.SliceData(object)
	place := &c[uintptr(unsafe.Pointer(start))>>6%recentFrames]
	if known := place.Load(); known != nil && known.framer == f && known.eventType == eventType &&
		unsafe.SliceData(known.object) == start && len(known.object) == len(object) {
		return known.frame
	}
	made := &framed{f, eventType, object, frames(f, events)}
	place.Store(made)
	return made.frame
}
