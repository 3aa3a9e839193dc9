// Package codec turns objects into bytes and back: the stored form, the encodings that clients ask for, lists that are
// put together from the bytes of their items, and tables.
package codec

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// magic begins every Kubernetes protobuf body.
var magic = [4]byte{'k', '8', 's', 0}

// message is what generated protobuf types have.
type message interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

var (
	errNoProtobuf = errors.New("the type has no protobuf form")
	errNoEnvelope = errors.New("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
)

// Field numbers of runtime.Unknown, and of TypeMeta in it.
const (
	tagTypeMeta    = 1<<3 | 2
	tagRaw         = 2<<3 | 2
	tagEncoding    = 3<<3 | 2
	tagContentType = 4<<3 | 2
	tagAPIVersion  = 1<<3 | 2
	tagKind        = 2<<3 | 2
)

// tail ends an envelope: empty contentEncoding and contentType, as Kubernetes writes them.
var tail = [4]byte{tagEncoding, 0, tagContentType, 0}

// appendHead appends the magic number and the TypeMeta.
func appendHead(b []byte, gvk schema.GroupVersionKind) []byte {
	apiVersion := gvk.GroupVersion().String()
	b = append(b, magic[:]...)
	b = append(b, tagTypeMeta)
	b = appendVarint(b, uint64(2+varintSize(len(apiVersion))+len(apiVersion)+varintSize(len(gvk.Kind))+len(gvk.Kind)))
	b = appendString(b, tagAPIVersion, apiVersion)
	return appendString(b, tagKind, gvk.Kind)
}

// appendRaw appends the head of the raw field, for a body of n bytes that the caller appends next, and then tail.
func appendRaw(b []byte, n int) []byte {
	return appendVarint(append(b, tagRaw), uint64(n))
}

// seal encodes an object in an envelope.
func seal(gvk schema.GroupVersionKind, obj any) ([]byte, error) {
	m, ok := obj.(message)
	if !ok {
		return nil, fmt.Errorf("%s: %w", gvk, errNoProtobuf)
	}
	size := m.Size()
	b := make([]byte, 0, 4+8+len(gvk.Group)+len(gvk.Version)+len(gvk.Kind)+16+size+len(tail))
	b = appendRaw(appendHead(b, gvk), size)
	start := len(b)
	b = b[:start+size]
	if _, err := m.MarshalToSizedBuffer(b[start:]); err != nil {
		return nil, fmt.Errorf("encode %s: %w", gvk, err)
	}
	return append(b, tail[:]...), nil
}

// envelope is an opened runtime.Unknown; its slices point into the bytes it was opened from.
type envelope struct {
	apiVersion, kind string
	raw              []byte
	contentType      string
}

// open reads an envelope without copying its body. What it says of the body's content encoding does not count, as in Kubernetes.
func open(b []byte) (envelope, error) {
	var e envelope
	if len(b) < len(magic) || [4]byte(b[:4]) != magic {
		return e, errNoEnvelope
	}
	err := eachField(b[4:], func(tag uint64, value []byte) error {
		switch tag {
		case tagTypeMeta:
			return eachField(value, func(tag uint64, value []byte) error {
				switch tag {
				case tagAPIVersion:
					e.apiVersion = string(value)
				case tagKind:
					e.kind = string(value)
				}
				return nil
			})
		case tagRaw:
			e.raw = value
		case tagContentType:
			e.contentType = string(value)
		}
		return nil
	})
	if err != nil { // the library knows how to skip more, and says what is wrong in its words
		var u runtime.Unknown
		if err := u.Unmarshal(b[len(magic):]); err != nil {
			return e, err
		}
		return envelope{u.APIVersion, u.Kind, u.Raw, u.ContentType}, nil
	}
	return e, nil
}

// bodyOf returns the body of an envelope that the store keeps, whose kind is known from its key.
func bodyOf(b []byte) ([]byte, error) {
	if len(b) < len(magic) || [4]byte(b[:4]) != magic {
		return nil, errNoEnvelope
	}
	for b = b[len(magic):]; len(b) > 0; {
		tag, n := uvarint(b)
		if n <= 0 || tag&7 != 2 {
			return nil, errTruncated // an envelope has no other fields
		}
		size, m := uvarint(b[n:])
		if b = b[n:]; m <= 0 || size > uint64(len(b)-m) {
			return nil, errTruncated
		}
		if tag == tagRaw {
			return b[m : m+int(size)], nil
		}
		b = b[m+int(size):]
	}
	return nil, nil // an empty body
}

var errTruncated = errors.New("truncated protobuf message")

// eachField calls f with each length-delimited field of a message; others are skipped.
func eachField(b []byte, f func(tag uint64, value []byte) error) error {
	for len(b) > 0 {
		tag, n := uvarint(b)
		if n <= 0 {
			return errTruncated
		}
		b = b[n:]
		switch tag & 7 {
		case 0:
			if _, n = uvarint(b); n <= 0 {
				return errTruncated
			}
			b = b[n:]
		case 1:
			if len(b) < 8 {
				return errTruncated
			}
			b = b[8:]
		case 2:
			size, n := uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return errTruncated
			}
			if err := f(tag, b[n:n+int(size)]); err != nil {
				return err
			}
			b = b[n+int(size):]
		case 5:
			if len(b) < 4 {
				return errTruncated
			}
			b = b[4:]
		default:
			return fmt.Errorf("wire type %d is not supported", tag&7)
		}
	}
	return nil
}

// revisionSuffix is a second metadata field that holds only the resourceVersion. Decoders merge repeated
// occurrences of an embedded message, so appending it to a stored body sets the resourceVersion without
// decoding anything: it is how stored bytes, which cannot know their own revision, are handed out.
//
// An object that is not stored, as a dry run's, has revision 0 and no resourceVersion: its suffix is empty.
func revisionSuffix(b []byte, revision int64) []byte {
	if revision == 0 {
		return b
	}
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], revision, 10)
	b = append(b, 1<<3|2, byte(len(text)+2), 6<<3|2, byte(len(text)))
	return append(b, text...)
}

func revisionSuffixSize(revision int64) int {
	if revision == 0 {
		return 0
	}
	n := 5
	for revision >= 10 {
		revision /= 10
		n++
	}
	return n
}

func appendString(b []byte, tag byte, s string) []byte {
	return append(appendVarint(append(b, tag), uint64(len(s))), s...)
}

func appendVarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func varintSize(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }

func uvarint(b []byte) (uint64, int) {
	var x uint64
	for i, c := range b {
		if i == 10 {
			return 0, -1
		}
		if c < 0x80 {
			return x | uint64(c)<<(7*i), i + 1
		}
		x |= uint64(c&0x7f) << (7 * i)
	}
	return 0, 0
}
