package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// cloneWithin bounds how long a repository may take to come.
const cloneWithin = 10 * time.Minute

// careful are git's settings for a repository of which nobody knows what is in it: no program of its own runs, and none is taken from this machine.
var careful = []string{
	"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
	"-c", "protocol.allow=never", "-c", "protocol.https.allow=always", "-c", "protocol.http.allow=always", "-c", "protocol.ssh.allow=always", "-c", "protocol.git.allow=always",
}

// gitRepo clones a repository into the volume's folder. It is done once: what containers make of it stays as long as the pod.
func (m *Manager) gitRepo(ctx context.Context, s *corev1.GitRepoVolumeSource, dir string) (string, error) {
	if !m.cfg.GitRepos {
		return "", errors.New("git-repo volume plugin has been disabled; if necessary, it may be re-enabled by the node agent's option --git-repo-volumes")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	for what, value := range map[string]string{"repository": s.Repository, "revision": s.Revision, "directory": s.Directory} {
		if strings.HasPrefix(value, "-") {
			return "", fmt.Errorf("%q is an invalid value for %s", value, what)
		}
	}
	// One that is cut off is begun anew: what has the name is whole.
	making := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".making")
	if err := os.RemoveAll(making); err != nil {
		return "", err
	}
	if err := os.MkdirAll(making, 0o777); err != nil {
		return "", err
	}
	if err := os.Chmod(making, 0o777); err != nil { // past the umask
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, cloneWithin)
	defer cancel()
	if err := m.clone(ctx, s, making); err != nil {
		return "", err
	}
	return dir, os.Rename(making, dir)
}

// clone gets the repository, and the revision of it that is asked for.
func (m *Manager) clone(ctx context.Context, s *corev1.GitRepoVolumeSource, dir string) error {
	args := []string{"clone", "--", s.Repository}
	if s.Directory != "" {
		args = append(args, s.Directory)
	}
	if err := m.git(ctx, dir, args...); err != nil || s.Revision == "" {
		return err
	}
	at := filepath.Join(dir, s.Directory)
	if s.Directory == "" {
		made, err := os.ReadDir(dir)
		if err != nil || len(made) != 1 {
			return errors.Join(err, fmt.Errorf("unexpected directory contents: %d entries", len(made)))
		}
		at = filepath.Join(dir, made[0].Name())
	}
	if err := m.git(ctx, at, "checkout", s.Revision); err != nil {
		return err
	}
	return m.git(ctx, at, "reset", "--hard")
}

func (m *Manager) git(ctx context.Context, dir string, args ...string) error {
	said, code, err := m.cfg.Command(ctx, "git", append(append([]string{"-C", dir}, careful...), args...)...)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit status %d", code)
	}
	if err != nil {
		return fmt.Errorf("failed to exec 'git %s': %s: %w", strings.Join(args, " "), said, err)
	}
	return nil
}
