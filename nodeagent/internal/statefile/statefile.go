// Package statefile keeps what outlives the agent: JSON with a checksum, written whole or not at all.
package statefile

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"howdah.dev/kit/wholefile"
)

// file is what is written: the content's own fields stand in data, as it was summed.
type file struct {
	Data     json.RawMessage
	Checksum uint64
}

// Write replaces a file.
func Write(path string, content any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	whole, err := json.Marshal(file{raw, sum(raw)})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return wholefile.Write(path, whole, 0o600)
}

// Read reads a file that Write has written; an error is fs.ErrNotExist where there is none.
func Read(path string, content any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var whole file
	if err := json.Unmarshal(raw, &whole); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if got := sum(whole.Data); got != whole.Checksum {
		return fmt.Errorf("%s: checkpoint is corrupted: its checksum is %d, not %d", path, got, whole.Checksum)
	}
	return json.Unmarshal(whole.Data, content)
}

func sum(data []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(data)
	return h.Sum64()
}
