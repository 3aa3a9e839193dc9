package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// FromFile sets each flag that neither the command line nor the environment has set from a file, whose lines FormatFile has made. It goes after
// FromEnvironment. A file that is not there is none; all that is wrong in one is reported at once.
func FromFile(flags *pflag.FlagSet, path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	values, err := ParseFile(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return apply(flags, path, values, Variable)
}

// Apply sets each flag that nobody has set before from values by the flags' names. source is where they are from, for errors.
func Apply(flags *pflag.FlagSet, source string, values map[string]string) error {
	return apply(flags, source, values, func(flag string) string { return flag })
}

// apply sets flags from values that have the names that called gives to flags, and takes them out of values.
func apply(flags *pflag.FlagSet, source string, values map[string]string, called func(flag string) string) error {
	var problems []error
	flags.VisitAll(func(f *pflag.Flag) {
		value, ok := values[called(f.Name)]
		delete(values, called(f.Name))
		if !ok || f.Changed {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", source, called(f.Name), err))
		}
	})
	for _, name := range slices.Sorted(maps.Keys(values)) {
		problems = append(problems, fmt.Errorf("%s: %s is no setting", source, name))
	}
	return errors.Join(problems...)
}

var (
	variable = regexp.MustCompile(`\A[A-Z][A-Z0-9_]*\z`)
	plain    = regexp.MustCompile(`\A[A-Za-z0-9_./:,@%+=<>\[\]-]*\z`)
	shell    = regexp.MustCompile(`[<>\[\]]`) // plain for us, and not for a shell
)

// FormatFile writes settings as systemd's EnvironmentFile= and a shell read them: NAME=value, a line each, by name.
func FormatFile(values map[string]string) ([]byte, error) {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		switch {
		case !variable.MatchString(name):
			return nil, fmt.Errorf("%q is no name of a variable", name)
		case strings.ContainsAny(value, "'\n\r\x00"):
			return nil, fmt.Errorf("%s: the value has a quote or more than a line", name)
		case !plain.MatchString(value) || shell.MatchString(value):
			value = "'" + value + "'"
		}
		fmt.Fprintf(&out, "%s=%s\n", name, value)
	}
	return []byte(out.String()), nil
}

// ParseFile reads what FormatFile writes; empty lines and those that begin with # are left out.
func ParseFile(data []byte) (map[string]string, error) {
	values := map[string]string{}
	for i, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if len(value) >= 2 && value[0] == '\'' && value[len(value)-1] == '\'' {
			value = value[1 : len(value)-1]
		} else if !plain.MatchString(value) {
			ok = false
		}
		if !ok || !variable.MatchString(name) || strings.Contains(value, "'") {
			return nil, fmt.Errorf("line %d is not NAME=value", i+1) // the value may be a secret
		}
		values[name] = value
	}
	return values, nil
}
