// Package config gives every setting its three sources: a flag, else an
// environment variable, else the default.
package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Prefix starts the name of every environment variable: the flag
// --database-url is HOWDAH_DATABASE_URL.
const Prefix = "HOWDAH_"

// FromEnvironment sets each flag that the command line left alone from its
// environment variable. It reports all values that do not parse at once.
func FromEnvironment(flags *pflag.FlagSet) error {
	var problems []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := Variable(f.Name)
		value, ok := os.LookupEnv(name)
		if f.Changed || !ok {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	})
	return errors.Join(problems...)
}

// Variable returns the environment variable of a flag.
func Variable(flag string) string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Effective returns every setting as "name=value" for the log, with the
// values of secret ones replaced.
func Effective(flags *pflag.FlagSet) []string {
	var settings []string
	flags.VisitAll(func(f *pflag.Flag) {
		value := f.Value.String()
		if secret(f.Name) && value != "" {
			value = "<hidden>"
		}
		settings = append(settings, f.Name+"="+value)
	})
	return settings
}

// secret names flags that may carry a password or key in their value.
func secret(name string) bool {
	for _, part := range []string{"database-url", "password", "secret", "token", "url-header"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
