package bpf

import (
	"hash/crc32"
	"testing"
)

// What the programs know of so many bytes of zeros is what these do to a checksum.
func TestZerosOfChecksums(t *testing.T) {
	spec, err := LoadLB()
	if err != nil {
		t.Fatal(err)
	}
	var zeros [16]uint32
	if err := spec.Variables["crc_zeros"].Get(&zeros); err != nil {
		t.Fatal(err)
	}
	const one = 1 << 31 // the lowest power is in the highest bit
	for i, got := range zeros {
		// The library turns all bits around, before and after.
		want := ^crc32.Update(^uint32(one), crc32.MakeTable(crc32.Castagnoli), make([]byte, 1<<i))
		if got != want {
			t.Errorf("%d bytes: %08x, want %08x", 1<<i, got, want)
		}
	}
}
