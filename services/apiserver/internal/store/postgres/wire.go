package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"howdah.dev/services/apiserver/internal/store"
)

// The arguments and the answer of howdah.commit are arrays in PostgreSQL's binary format, written and read here
// directly: with hundreds of values a call, the general way costs more than the rest of the client's side.

var (
	binaryFormat = []int16{1}
	errShort     = errors.New("array is cut short")
)

// encode answers the ten arguments of commitSQL, written into buffer where it is long enough, and the buffer.
func encode(batch []*request, buffer []byte) (args [][]byte, used []byte) {
	n, bytes, groups, fences, origins := 0, 0, false, false, false
	for _, r := range batch {
		n += len(r.writes)
		bytes += int(r.bytes)
		groups = groups || r.atomic
		for i := range r.writes {
			fences = fences || r.writes[i].Fence != store.Fence{}
			origins = origins || r.writes[i].Origin != ""
		}
	}
	// One buffer for all: they only live as long as the call, and the next call can use it again.
	buffer = slices.Grow(buffer[:0], bytes+n*96+10*20)
	args = make([][]byte, 10)
	array := func(arg int, oid uint32, element func(b []byte, group int, atomic bool, w *store.Write) []byte) {
		start := len(buffer)
		for _, v := range []uint32{1, 0, oid, uint32(n), 1} {
			buffer = binary.BigEndian.AppendUint32(buffer, v)
		}
		for group, r := range batch {
			for i := range r.writes {
				length := len(buffer)
				buffer = append(buffer, 0, 0, 0, 0)
				buffer = element(buffer, group, r.atomic, &r.writes[i])
				binary.BigEndian.PutUint32(buffer[length:], uint32(len(buffer)-length-4))
			}
		}
		args[arg] = buffer[start:len(buffer):len(buffer)]
	}
	array(0, pgtype.Int2OID, func(b []byte, _ int, _ bool, w *store.Write) []byte {
		return binary.BigEndian.AppendUint16(b, uint16(w.Op))
	})
	array(1, pgtype.TextOID, func(b []byte, _ int, _ bool, w *store.Write) []byte { return append(b, w.Key...) })
	array(2, pgtype.Int8OID, func(b []byte, _ int, _ bool, w *store.Write) []byte {
		return binary.BigEndian.AppendUint64(b, uint64(w.Revision))
	})
	if groups {
		array(3, pgtype.Int4OID, func(b []byte, group int, _ bool, _ *store.Write) []byte {
			return binary.BigEndian.AppendUint32(b, uint32(group))
		})
	}
	array(4, pgtype.TextOID, func(b []byte, _ int, _ bool, w *store.Write) []byte { return append(b, w.Trace...) })
	array(5, pgtype.TextOID, func(b []byte, _ int, _ bool, w *store.Write) []byte { return append(b, w.Actor...) })
	if fences {
		array(6, pgtype.TextOID, func(b []byte, _ int, _ bool, w *store.Write) []byte { return append(b, w.Fence.Role...) })
		array(7, pgtype.Int8OID, func(b []byte, _ int, _ bool, w *store.Write) []byte {
			return binary.BigEndian.AppendUint64(b, uint64(w.Fence.Epoch))
		})
	}
	if origins {
		array(8, pgtype.TextOID, func(b []byte, _ int, _ bool, w *store.Write) []byte { return append(b, w.Origin...) })
	}
	array(9, pgtype.ByteaOID, func(b []byte, _ int, _ bool, w *store.Write) []byte { return append(b, w.Value...) })
	return args, buffer
}

// outcome is the answer of howdah.commit; an element a write.
type outcome struct {
	statuses       []int64
	revisions      []int64
	previous       []int64
	created        []int64
	previousValues [][]byte
	time           time.Time
}

// err translates the status of write i.
func (o outcome) err(i int) error {
	switch o.statuses[i] {
	case 0:
		return nil
	case 1:
		return store.ErrExists
	case 2:
		return store.ErrNotFound
	case 3:
		return &store.ConflictError{Current: o.previous[i]}
	case 4:
		return store.ErrFenced
	case 5:
		return store.ErrAborted
	}
	return fmt.Errorf("commit function answered status %d", o.statuses[i])
}

// postgresEpoch is where PostgreSQL's binary timestamps begin, in microseconds of Unix time.
const postgresEpoch = 946684800_000000

func decode(row [][]byte) (outcome, error) {
	var o outcome
	if len(row) != 6 || len(row[5]) != 8 {
		return o, errors.New("commit function answered other columns than expected")
	}
	var failures [5]error
	o.statuses, failures[0] = integers(row[0])
	o.revisions, failures[1] = integers(row[1])
	o.previous, failures[2] = integers(row[2])
	o.created, failures[3] = integers(row[3])
	o.previousValues, failures[4] = byteStrings(row[4])
	o.time = time.UnixMicro(int64(binary.BigEndian.Uint64(row[5])) + postgresEpoch).UTC()
	return o, errors.Join(failures[:]...)
}

func integers(array []byte) ([]int64, error) {
	result := make([]int64, 0, 8)
	err := elements(array, func(b []byte) error {
		switch len(b) {
		case 2:
			result = append(result, int64(int16(binary.BigEndian.Uint16(b))))
		case 8:
			result = append(result, int64(binary.BigEndian.Uint64(b)))
		default:
			return fmt.Errorf("array element of %d bytes is no integer", len(b))
		}
		return nil
	})
	return result, err
}

// byteStrings keeps NULL as nil.
func byteStrings(array []byte) ([][]byte, error) {
	var result [][]byte
	err := elements(array, func(b []byte) error {
		result = append(result, b)
		return nil
	})
	return result, err
}

// elements calls each with every element of a one-dimensional array; nil for NULL.
func elements(array []byte, each func([]byte) error) error {
	if len(array) < 12 {
		return errShort
	}
	if dimensions := binary.BigEndian.Uint32(array); dimensions != 1 {
		return fmt.Errorf("array has %d dimensions", dimensions)
	}
	if len(array) < 20 {
		return errShort
	}
	n, rest := binary.BigEndian.Uint32(array[12:]), array[20:]
	for range n {
		if len(rest) < 4 {
			return errShort
		}
		length := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		var element []byte
		if length >= 0 {
			if len(rest) < int(length) {
				return errShort
			}
			element, rest = rest[:length:length], rest[length:]
			if element == nil {
				element = []byte{}
			}
		}
		if err := each(element); err != nil {
			return err
		}
	}
	return nil
}
