package join

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/kit/nodecert"
	"howdah.dev/kit/wholefile"
)

const (
	// SettingsFile of a joined node's folder is what howdah nodeagent reads beside its flags and environment.
	SettingsFile = "nodeagent.env"
	// keyFile holds the key of a request that is not answered yet, so that another try goes on with it.
	keyFile = "joining.key"
	caFile  = "ca.crt"
)

// state is what a folder has of a node.
type state struct {
	joined bool      // whole and good, for this node
	until  time.Time // the certificate's end
	ended  bool      // of this node, but its time is over
}

// look reads a folder. It is an error where joining would destroy something: another node's identity, that of another cluster, or what howdah pki has made.
func look(dir, node string, pins []string, now time.Time) (state, error) {
	pair, err := nodecert.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		for _, name := range []string{"tls.crt", "tls.key"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				return state{}, fmt.Errorf("%s is there already, and not of howdah join: choose another --tls-dir", filepath.Join(dir, name))
			}
		}
		return state{}, nil
	}
	const reset = "howdah reset --tls-dir=%s takes it away"
	if err != nil {
		return state{}, fmt.Errorf("%w ("+reset+")", err, dir)
	}
	ca, err := os.ReadFile(filepath.Join(dir, caFile))
	if err != nil {
		return state{}, fmt.Errorf("the certificate of %q without its authority: %w ("+reset+")", pair.Leaf.Subject.CommonName, err, dir)
	}
	if len(pins) > 0 {
		if err := bootstrap.CheckPins(ca, pins); err != nil {
			return state{}, fmt.Errorf("%s has the certificate of another cluster: %w ("+reset+")", dir, err, dir)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	file, err := os.ReadFile(filepath.Join(dir, nodecert.File))
	if err != nil {
		return state{}, err
	}
	_, err = nodecert.Check(file, file, node, roots, now)
	switch {
	case errors.Is(err, nodecert.ErrEnded):
		return state{ended: true, until: pair.Leaf.NotAfter}, nil
	case err != nil:
		return state{}, fmt.Errorf("%s has a certificate that is not this node's: %w ("+reset+")", dir, err, dir)
	}
	_, err = os.Stat(filepath.Join(dir, SettingsFile))
	return state{joined: err == nil, until: pair.Leaf.NotAfter}, nil
}

// key returns the key of an earlier try, or makes one and keeps it.
func key(dir string) ([]byte, error) {
	path := filepath.Join(dir, keyFile)
	data, err := os.ReadFile(path)
	if err == nil {
		if _, err := nodecert.NewRequest("check", data); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return data, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if data, err = nodecert.NewKey(); err != nil {
		return nil, err
	}
	if err := wholefile.Write(path, data, 0o600); err != nil {
		return nil, fmt.Errorf("keep the key: %w", err)
	}
	return data, nil
}

// remove takes a file away that may not be there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
