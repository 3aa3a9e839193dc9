package postgres

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"howdah.dev/services/apiserver/internal/store"
)

func TestEncodeIsWhatPostgresReads(t *testing.T) {
	t.Parallel()
	batch := []*request{requestOf("a"), requestOf("b", "c")}
	batch[0].writes[0] = store.Write{Op: store.Create, Key: "a", Value: []byte("one"), Trace: "t", Actor: "x"}
	batch[1].writes[1] = store.Write{Op: store.Delete, Key: "c", Revision: 7, Fence: store.Fence{Role: "r", Epoch: 3}}
	args, buffer := encode(batch, nil)
	types := pgtype.NewMap()
	scan := func(arg int, oid uint32, into any) {
		t.Helper()
		if err := types.Scan(oid, pgtype.BinaryFormatCode, args[arg], into); err != nil {
			t.Fatalf("argument %d: %v", arg, err)
		}
	}
	var operations []int16
	var keys, traces, roles []string
	var values [][]byte
	var revisions, epochs []int64
	var groups []int32
	scan(0, pgtype.Int2ArrayOID, &operations)
	scan(1, pgtype.TextArrayOID, &keys)
	scan(9, pgtype.ByteaArrayOID, &values)
	scan(2, pgtype.Int8ArrayOID, &revisions)
	scan(3, pgtype.Int4ArrayOID, &groups)
	scan(4, pgtype.TextArrayOID, &traces)
	scan(6, pgtype.TextArrayOID, &roles)
	scan(7, pgtype.Int8ArrayOID, &epochs)
	if operations[0] != 1 || operations[2] != 3 || keys[2] != "c" || string(values[0]) != "one" || revisions[2] != 7 ||
		groups[0] == groups[1] || groups[1] != groups[2] || traces[0] != "t" || roles[2] != "r" || roles[0] != "" || epochs[2] != 3 {
		t.Error(operations, keys, values, revisions, groups, traces, roles, epochs)
	}
	if plain, _ := encode(batch[:1], buffer); plain[3] != nil || plain[6] != nil || plain[7] != nil {
		t.Error("a batch without groups and fences sends arrays of them")
	}
}

func TestByteStringsTellNullFromEmpty(t *testing.T) {
	t.Parallel()
	encoded, err := pgtype.NewMap().Encode(pgtype.ByteaArrayOID, pgtype.BinaryFormatCode, [][]byte{nil, {}, []byte("x")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := byteStrings(encoded)
	if err != nil || len(got) != 3 || got[0] != nil || got[1] == nil || string(got[2]) != "x" {
		t.Errorf("%v, %v", got, err)
	}
}

// Whatever bytes come, decoding ends with elements that lie within them, or an error.
func FuzzElements(f *testing.F) {
	valid := binary.BigEndian.AppendUint32(nil, 1)
	for _, v := range []uint32{0, 17, 2, 1, 0xffffffff, 1} {
		valid = binary.BigEndian.AppendUint32(valid, v)
	}
	f.Add(append(valid, 'x'))
	f.Add(valid)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, array []byte) {
		total := 0
		err := elements(array, func(b []byte) error { total += len(b); return nil })
		if err == nil && total > len(array) {
			t.Errorf("%d bytes of elements in an array of %d", total, len(array))
		}
		if err == nil && !bytes.HasPrefix(array, []byte{0, 0, 0, 1}) {
			t.Error("an array that is not one-dimensional was read")
		}
	})
}
