package credfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"howdah.dev/services/apiserver/internal/authn"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTokens(t *testing.T) {
	t.Parallel()
	tokens, err := LoadTokens(write(t, "t1,jane,1\nt2,joe,2,\"devs,ops\"\n,nobody,3\nt1,jim,4\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Tokens{"t1": {Name: "jim", UID: "4"}, "t2": {Name: "joe", UID: "2", Groups: []string{"devs", "ops"}}}
	if diff := cmp.Diff(want, tokens); diff != "" {
		t.Error(diff)
	}
	if user, err := tokens.Holder(t.Context(), "t2"); err != nil || user.Name != "joe" {
		t.Error(user, err)
	}
	if _, err := tokens.Holder(t.Context(), ""); !errors.Is(err, authn.ErrNotMine) {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"t1,jane\n":         "must have at least 3 columns (token, user name, user uid), found 2 in line 1",
		"t1,\"jane,1\nx,y,": "token file",
	} {
		if _, err := LoadTokens(write(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := LoadTokens("/nonexistent"); err == nil {
		t.Error("a file that is not there")
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	p, err := LoadPasswords(write(t, "secret,jane,1,devs\n,joe,2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if user, err := p.VerifyPassword(t.Context(), "jane", "secret"); err != nil || user.Name != "jane" || user.Groups[0] != "devs" {
		t.Error(user, err)
	}
	for _, bad := range [][2]string{{"jane", "x"}, {"jane", ""}, {"joe", ""}, {"nobody", ""}, {"nobody", "secret"}} {
		if user, err := p.VerifyPassword(t.Context(), bad[0], bad[1]); err == nil {
			t.Errorf("%v: %v", bad, user)
		}
	}
}
