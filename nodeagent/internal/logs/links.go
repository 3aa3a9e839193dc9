package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxName is how long a file's name may be.
const maxName = 255

// Links is a folder in which each container's log has a link whose name says whose it is: programs that gather the logs of a node look there, as
// /var/log/containers (https://kubernetes.io/docs/concepts/cluster-administration/logging/). Empty is no folder.
type Links string

// Name is the link of a run of a container: POD_NAMESPACE_CONTAINER-ID.log, cut where that is too long.
func (l Links) Name(pod, namespace, container, id string) string {
	const suffix = ".log"
	name := fmt.Sprintf("%s_%s_%s-%s", pod, namespace, container, id)
	return filepath.Join(string(l), name[:min(len(name), maxName-len(suffix))]+suffix)
}

// Add makes the link to a log. A log that is not there, as that of a runtime which keeps them elsewhere, gets none.
func (l Links) Add(link, log string) error {
	if l == "" {
		return nil
	}
	if _, err := os.Stat(log); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(string(l), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(log, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Sweep removes the links whose logs are gone.
func (l Links) Sweep() error {
	if l == "" {
		return nil
	}
	entries, err := os.ReadDir(string(l))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	problems := []error{err}
	for _, e := range entries {
		path := filepath.Join(string(l), e.Name())
		if e.Type()&fs.ModeSymlink == 0 || !strings.HasSuffix(e.Name(), ".log") {
			continue
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if target, err := os.Readlink(path); err == nil && rotating(target) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// rotating reports whether a log that is not there was put aside: another one takes its place at once.
func rotating(log string) bool {
	aside, err := filepath.Glob(log + ".*")
	return err == nil && len(aside) > 0
}
