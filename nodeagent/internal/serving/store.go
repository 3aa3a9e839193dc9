package serving

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"howdah.dev/kit/wholefile"
)

// fileName is a kubelet's: the certificate and its key, one after the other.
const fileName = "kubelet-server-current.pem"

// load reads what an earlier life of the agent was given; nil where there is nothing.
func load(dir string) (*tls.Certificate, error) {
	file := filepath.Join(dir, fileName)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the serving certificate: %w", err)
	}
	out, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, fmt.Errorf("read the serving certificate in %s: %w", file, err)
	}
	return &out, nil
}

// save replaces the file whole, also if the machine dies. Nobody but its owner reads it.
func save(dir string, certificate, key []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keep the serving certificate: %w", err)
	}
	if err := wholefile.Write(filepath.Join(dir, fileName), slices.Concat(certificate, key), 0o600); err != nil {
		return fmt.Errorf("keep the serving certificate: %w", err)
	}
	return nil
}

// Remove takes away what save has written, if it is there.
func Remove(dir string) error {
	if err := os.Remove(filepath.Join(dir, fileName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
