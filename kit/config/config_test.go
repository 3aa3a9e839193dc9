package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func flagSet() *pflag.FlagSet {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.String("database-url", "", "")
	fs.Int("workers", 4, "")
	return fs
}

func TestFromEnvironment(t *testing.T) {
	t.Setenv("HOWDAH_WORKERS", "7")
	t.Setenv("HOWDAH_DATABASE_URL", "postgres://from-environment")
	fs := flagSet()
	if err := fs.Parse([]string{"--database-url=postgres://from-flag"}); err != nil {
		t.Fatal(err)
	}
	if err := FromEnvironment(fs); err != nil {
		t.Fatal(err)
	}
	if got, _ := fs.GetString("database-url"); got != "postgres://from-flag" {
		t.Errorf("the flag must win, got %q", got)
	}
	if got, _ := fs.GetInt("workers"); got != 7 {
		t.Errorf("the environment must beat the default, got %d", got)
	}
}

func TestFromEnvironmentReportsBadValues(t *testing.T) {
	t.Setenv("HOWDAH_WORKERS", "many")
	if err := FromEnvironment(flagSet()); err == nil || !strings.Contains(err.Error(), "HOWDAH_WORKERS") {
		t.Fatalf("got %v, want an error that names the variable", err)
	}
}

func TestEffectiveHidesSecrets(t *testing.T) {
	t.Parallel()
	fs := flagSet()
	if err := fs.Set("database-url", "postgres://user:pw@host"); err != nil {
		t.Fatal(err)
	}
	if got := Effective(fs); !slices.Equal(got, []string{"database-url=<hidden>", "workers=4"}) {
		t.Fatalf("got %v", got)
	}
}
