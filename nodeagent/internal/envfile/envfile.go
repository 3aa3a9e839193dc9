// Package envfile reads files of environment variables that containers have written into a volume: NAME='value', the part of a POSIX shell's syntax that
// Kubernetes takes (https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-via-file/).
package envfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// maxSize bounds a file, in bytes: its writer is a container.
const maxSize = 1 << 20

// Read returns the value of a variable in the file at path within a folder. A file that is not there is fs.ErrNotExist. Whatever the containers that write
// to the folder have made of it, nothing outside of it is read, and nothing that does not end.
func Read(folder, path, name string) (string, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", err
	}
	defer root.Close()
	file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that nobody writes to would hold us
	if err != nil {
		return "", err
	}
	defer file.Close()
	switch info, err := file.Stat(); {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("it is no regular file")
	case info.Size() > maxSize:
		return "", fmt.Errorf("it has %d bytes, more than %d", info.Size(), maxSize)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxSize))
	if err != nil {
		return "", err
	}
	return Find(string(text), name)
}

// Find returns the value of a variable in a text: what stands between single quotes, as it is, lines included. The first assignment counts; without any, or with
// nothing between name= and a space, the value is empty. What comes behind it is not read; what comes before has to be right.
func Find(text, name string) (string, error) {
	for line := 1; text != ""; {
		assignment, blank := strings.CutPrefix(strings.TrimLeft(text, " \t\r"), "\n")
		if blank || assignment == "" || assignment[0] == '#' {
			text, line = behindLine(text), line+1
			continue
		}
		a, err := read(assignment)
		if err != nil {
			return "", fmt.Errorf("line %d: %w", line, err)
		}
		if a.name == name {
			return a.value, nil
		}
		text, line = a.rest, line+a.lines
	}
	return "", nil
}

// assignment is one of them, with the number of its lines and what comes behind these.
type assignment struct {
	name, value, rest string
	lines             int
}

// read reads the assignment that a text begins with.
func read(text string) (assignment, error) {
	first, _, _ := strings.Cut(text, "\n")
	name, value, assigned := strings.Cut(first, "=")
	switch {
	case !assigned:
		return assignment{}, errors.New("there is no =")
	case name == "":
		return assignment{}, errors.New("there is no name before =")
	case strings.ContainsAny(name, " \t"):
		return assignment{}, errors.New("there is a space before =")
	case value != "" && strings.ContainsRune(" \t", rune(value[0])): // as in a shell, that is an empty value
		return assignment{name: name, rest: behindLine(text), lines: 1}, nil
	case !strings.HasPrefix(value, "'"):
		return assignment{}, errors.New("the value is not in single quotes")
	}
	quoted, rest, closed := strings.Cut(text[len(name)+len("='"):], "'")
	if !closed {
		return assignment{}, errors.New("the quote does not end")
	}
	behind, _, _ := strings.Cut(rest, "\n")
	if behind = strings.Trim(behind, " \t\r"); behind != "" && behind[0] != '#' {
		return assignment{}, errors.New("there is something behind the value")
	}
	return assignment{name: name, value: quoted, rest: behindLine(rest), lines: 1 + strings.Count(quoted, "\n")}, nil
}

func behindLine(text string) string {
	_, rest, _ := strings.Cut(text, "\n")
	return rest
}
