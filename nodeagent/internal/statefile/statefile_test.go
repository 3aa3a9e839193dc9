package statefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "folder", "state")
	var got map[string]string
	if err := Read(path, &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is none: %v", err)
	}
	for _, value := range []string{"one", "two"} {
		if err := Write(path, map[string]string{"key": value}); err != nil {
			t.Fatal(err)
		}
		if err := Read(path, &got); err != nil || got["key"] != value {
			t.Errorf("%v %v, want %s", got, err, value)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]string{"another": strings.Replace(string(raw), "two", "six", 1), "half": string(raw[:len(raw)/2]), "empty": ""} {
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Read(path, &got); err == nil {
			t.Errorf("%s: it is believed", name)
		}
	}
	if files, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(files) > 0 {
		t.Errorf("it leaves %v", files)
	}
}
