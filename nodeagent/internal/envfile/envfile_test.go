package envfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, value, err string }{
		{"one", "KEY='value'", "value", ""},
		{"with an end of its line", "KEY='value'\n", "value", ""},
		{"behind others", "# about\n\n \t\nA='1'\n\tKEY='2'\n", "2", ""},
		{"the first of two", "KEY='1'\nKEY='2'\n", "1", ""},
		{"nothing of it", "A='1'\n", "", ""},
		{"an empty text", "", "", ""},
		{"empty", "KEY=''\n", "", ""},
		{"a space before the quote", "KEY= 'x'\n", "", ""},
		{"lines", "A='x\ny'\nKEY='one\n\n# two=3\n'\nB='", "one\n\n# two=3\n", ""},
		{"a comment behind it", "KEY='v' # why", "v", ""},
		{"as it is", `KEY='$HOME "\n" \'`, `$HOME "\n" \`, ""},
		{"ends of lines of Windows", "A='1'\r\n\r\nKEY='2'\r\n", "2", ""},
		{"wrong behind it", "KEY='v'\nnonsense\n", "v", ""},
		{"without quotes", "KEY=value\n", "", "line 1: the value is not in single quotes"},
		{"nothing behind =", "KEY=\n", "", "line 1: the value is not in single quotes"},
		{"double quotes", "A='1'\nKEY=\"value\"\n", "", "line 2: the value is not in single quotes"},
		{"a space before =", "KEY ='value'\n", "", "line 1: there is a space before ="},
		{"an export", "export KEY='value'\n", "", "line 1: there is a space before ="},
		{"no name", "='value'\n", "", "line 1: there is no name before ="},
		{"no =", "# x\nA='a\nb'\nKEY\n", "", "line 4: there is no ="},
		{"an open quote", "KEY='value\n", "", "line 1: the quote does not end"},
		{"two values", "KEY='a''b'\n", "", "line 1: there is something behind the value"},
	} {
		value, err := Find(tt.text, "KEY")
		if value != tt.value || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s: %q, %v", tt.name, value, err)
		}
	}
}

// FuzzFind: it ends, and what is found stands in the text.
func FuzzFind(f *testing.F) {
	for _, text := range []string{"KEY='value'", "# x\nA='a\nb'\nKEY='2' # y\n", "KEY= 'x'", "='\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value, err := Find(text, "KEY")
		if err == nil && value != "" && !strings.Contains(text, "KEY='"+value+"'") {
			t.Errorf("%q in %q", value, text)
		}
	})
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "volume")
	for name, text := range map[string]string{
		"secret": "KEY='outside'\n", "volume/plain": "KEY='plain'\n", "volume/sub/deep": "KEY='deep'\n", "volume/large": "KEY='" + strings.Repeat("x", maxSize) + "'",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"inside": "plain", "relative": "../secret", "absolute": filepath.Join(dir, "secret")} {
		if err := os.Symlink(to, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"plain": "plain", "sub/deep": "deep", "inside": "plain"} {
		if value, err := Read(folder, path, "KEY"); value != want || err != nil {
			t.Errorf("%s: %q, %v", path, value, err)
		}
	}
	for _, path := range []string{"relative", "absolute", "../secret", "pipe", "large", "sub"} {
		if value, err := Read(folder, path, "KEY"); value != "" || err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v", path, value, err)
		}
	}
	if _, err := Read(folder, "none", "KEY"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}
