package check_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

func TestPaths(t *testing.T) {
	t.Parallel()
	at := field.NewPath("p")
	for _, c := range []struct {
		path           string
		relative, file int // how many errors
	}{
		{"a/b", 0, 0}, {"", 0, 0}, {"a..b", 0, 0}, {"/a", 1, 1}, {"a/../b", 1, 1}, {"../a", 1, 1}, {"..", 1, 2}, {"..data", 0, 1}, {`a\..\b`, 0, 0},
	} {
		if got := len(check.RelativePath(c.path, at)); got != c.relative {
			t.Errorf("RelativePath(%q): %d errors, want %d", c.path, got, c.relative)
		}
		if got := len(check.FilePath(c.path, at)); got != c.file {
			t.Errorf("FilePath(%q): %d errors, want %d", c.path, got, c.file)
		}
	}
}

func TestPublicIP(t *testing.T) {
	t.Parallel()
	for ip, good := range map[string]bool{
		"10.0.0.1": true, "fd00::1": true, "127.0.0.1": false, "::1": false, "0.0.0.0": false,
		"169.254.1.1": false, "224.0.0.1": false, "ff02::1": false, "x": false,
	} {
		if got := len(check.PublicIP(ip, field.NewPath("ip"))) == 0; got != good {
			t.Errorf("%s: good %v, want %v", ip, got, good)
		}
	}
}

func TestOneOf(t *testing.T) {
	t.Parallel()
	at := field.NewPath("f")
	if errs := check.Choice("", at, "b", "a"); len(errs) != 1 || errs[0].Type != field.ErrorTypeRequired {
		t.Errorf("empty: %v", errs)
	}
	if errs := check.OneOf("c", at, "b", "a"); len(errs) != 1 || errs[0].Error() != `f: Unsupported value: "c": supported values: "a", "b"` {
		t.Errorf("unknown: %v", errs)
	}
	if errs := check.OneOf("b", at, "b", "a"); errs != nil {
		t.Errorf("known: %v", errs)
	}
}
