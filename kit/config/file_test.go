package config

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestFileFormat(t *testing.T) {
	t.Parallel()
	values := map[string]string{"HOWDAH_APISERVER": "dns:///10.0.0.1:7443", "HOWDAH_EMPTY": "", "HOWDAH_EVICTION_HARD": "memory.available<100Mi,pid.available<4%", "HOWDAH_WORDS": "two words"}
	data, err := FormatFile(values)
	if err != nil {
		t.Fatal(err)
	}
	const want = "HOWDAH_APISERVER=dns:///10.0.0.1:7443\nHOWDAH_EMPTY=\nHOWDAH_EVICTION_HARD='memory.available<100Mi,pid.available<4%'\nHOWDAH_WORDS='two words'\n"
	if string(data) != want {
		t.Errorf("%s", data)
	}
	got, err := ParseFile([]byte("# of a person\n\n" + string(data)))
	if err != nil || !maps.Equal(got, values) {
		t.Errorf("%v, %v", got, err)
	}
	for name, value := range map[string]string{"lower": "x", "": "x", "QUOTE": "it's", "LINES": "a\nHOWDAH_X=b"} {
		if data, err := FormatFile(map[string]string{name: value}); err == nil {
			t.Errorf("%q=%q is written: %s", name, value, data)
		}
	}
	for _, bad := range []string{"no value", "lower=x", "X=two words", "X='a'b'", "X=$(rm)", "X='open"} {
		if got, err := ParseFile([]byte("A=b\n" + bad)); err == nil || !strings.Contains(err.Error(), "line 2") || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}

func TestFromFile(t *testing.T) {
	t.Setenv("HOWDAH_TWO", "environment")
	file := filepath.Join(t.TempDir(), "settings")
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, name := range []string{"one", "two", "three", "four"} {
		fs.String(name, "default", "")
	}
	fs.Int("number", 1, "")
	if err := fs.Parse([]string{"--one=flag"}); err != nil {
		t.Fatal(err)
	}
	if err := FromEnvironment(fs); err != nil {
		t.Fatal(err)
	}
	if err := FromFile(fs, file); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(file, []byte("HOWDAH_ONE=file\nHOWDAH_TWO=file\nHOWDAH_THREE=file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := FromFile(fs, file); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"one": "flag", "two": "environment", "three": "file", "four": "default"} {
		if got, _ := fs.GetString(name); got != want {
			t.Errorf("--%s is %q, want %q", name, got, want)
		}
	}
	if err := os.WriteFile(file, []byte("HOWDAH_NUMBER=many\nHOWDAH_UNKNOWN=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := FromFile(fs, file); err == nil || !strings.Contains(err.Error(), "HOWDAH_NUMBER") || !strings.Contains(err.Error(), "HOWDAH_UNKNOWN is no setting") {
		t.Errorf("%v", err)
	}
}
