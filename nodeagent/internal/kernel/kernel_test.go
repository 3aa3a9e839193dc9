package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestApply(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	write := func(path, value string) {
		t.Helper()
		path = filepath.Join(sys, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(sys, path))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	for _, w := range wanted[1:] { // a kernel may lack one
		write(w.path, w.value)
	}
	write("kernel/panic", "0")
	write("vm/panic_on_oom", "1")
	if err := Apply(sys, Leave); err != nil || read("kernel/panic") != "0" {
		t.Errorf("left: %v", err)
	}
	err := Apply(sys, Protect)
	if err == nil || read("kernel/panic") != "0" || err.Error() != "invalid kernel flag: vm/panic_on_oom, expected value: 0, actual value: 1\ninvalid kernel flag: kernel/panic, expected value: 10, actual value: 0" {
		t.Errorf("protected: %v", err)
	}
	if err := Apply(sys, Set); err != nil || read("kernel/panic") != "10" || read("vm/panic_on_oom") != "0" {
		t.Errorf("set: %v", err)
	}
	if err := Apply(sys, Protect); err != nil {
		t.Errorf("protected after it was set: %v", err)
	}
}
