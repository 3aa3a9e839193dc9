package openapi

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Documents are texts that say the same over and over: compressed they take a tenth or less, and to expand one takes some 3 ms for each megabyte.
var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		w, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)) // the options are valid
		return w
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		r, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0))
		return r
	})
)

func pack(text []byte) []byte { return packer().EncodeAll(text, nil) }

func unpack(packed []byte) ([]byte, error) {
	text, err := unpacker().DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("openapi: expand a document: %w", err)
	}
	return text, nil
}
