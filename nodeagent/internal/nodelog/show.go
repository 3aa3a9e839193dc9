package nodelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"time"
)

// within is how long an answer may take.
const within = 30 * time.Second

// Journal runs journalctl.
type Journal func(ctx context.Context, to io.Writer, arguments ...string) error

// Journalctl is the node's own. It has nothing of the agent's environment, in which there may be secrets.
func Journalctl(ctx context.Context, to io.Writer, arguments ...string) error {
	cmd := exec.CommandContext(ctx, "journalctl", arguments...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = to, to, time.Second
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	return cmd.Run()
}

// Show writes what services have logged. What goes wrong is told in the text: part of it may have been sent.
func (q *Query) Show(ctx context.Context, to io.Writer, journal Journal, dir string) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	inJournal, inFiles := split(q.Services, units(ctx, journal))
	if len(inJournal) > 0 {
		var exit *exec.ExitError // it has said what is wrong by itself
		if err := journal(ctx, to, q.arguments(inJournal)...); err != nil && !errors.As(err, &exit) {
			fmt.Fprintf(to, "\nerror: journal output not available\n")
		}
	}
	if len(inFiles) > 0 && q.Options != (Options{}) {
		fmt.Fprintf(to, "\noptions present and query resolved to log files for %v\ntry without specifying options\n", inFiles)
		return
	}
	for _, name := range inFiles {
		showFile(ctx, to, dir, name)
	}
}

// units are those that the journal knows; none where there is no journal.
func units(ctx context.Context, journal Journal) map[string]bool {
	var out bytes.Buffer
	if err := journal(ctx, &out, "--field=_SYSTEMD_UNIT"); err != nil {
		return nil
	}
	known := map[string]bool{}
	for line := range bytes.Lines(out.Bytes()) {
		known[string(bytes.TrimSpace(line))] = true
	}
	return known
}

// split tells the services that the journal knows from the others.
func split(services []string, known map[string]bool) (inJournal, inFiles []string) {
	for _, name := range services {
		if known[name] || known[name+".service"] {
			inJournal = append(inJournal, name)
		} else if !slices.Contains(inFiles, name) {
			inFiles = append(inFiles, name)
		}
	}
	return inJournal, inFiles
}

// showFile writes the first file there is that a service may write to. No link leads out of the folder.
func showFile(ctx context.Context, to io.Writer, dir, name string) {
	err := fs.ErrNotExist
	for _, file := range []string{name, name + ".log", name + "/" + name + ".log"} {
		if err = copyFile(ctx, to, dir, file); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintf(to, "\nlog not found for %s\n", name)
	case err != nil:
		fmt.Fprintf(to, "\nerror getting log for %s: %v\n", name, err)
	}
}

func copyFile(ctx context.Context, to io.Writer, dir, file string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // a folder may hold it; a pipe would keep us waiting
		return fs.ErrNotExist
	}
	f, err := root.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, bounded{ctx, f})
	return err
}

// bounded reads until ctx ends.
type bounded struct {
	ctx context.Context
	io.Reader
}

func (b bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.Reader.Read(p)
}
