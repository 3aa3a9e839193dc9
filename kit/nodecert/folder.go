package nodecert

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

// File is where a node that has joined keeps its certificate and its key, one after the other, in its folder: a single file is replaced in one step. tls.crt
// and tls.key, which rpc.LoadIdentity reads, are links to it.
const File = "node.pem"

// links lead to File.
var links = []string{"tls.key", "tls.crt"}

// Save replaces the certificate and key of a folder that is there.
func Save(dir string, certificate, key []byte) error {
	if err := wholefile.Write(filepath.Join(dir, File), slices.Concat(certificate, key), 0o600); err != nil {
		return fmt.Errorf("keep the certificate: %w", err)
	}
	for _, name := range links {
		if err := link(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("keep the certificate: %w", err)
		}
	}
	return nil
}

// link makes path lead to File in one step.
func link(path string) error {
	if to, err := os.Readlink(path); err == nil && to == File {
		return nil
	}
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a try that was cut off
		return err
	}
	if err := os.Symlink(File, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// Load reads the certificate of a folder; fs.ErrNotExist says that no node has joined there.
func Load(dir string) (*tls.Certificate, error) {
	data, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, File), err)
	}
	return &pair, nil
}

// Remove takes away what Save has written; what is not there is no error. Files of tls.crt and tls.key that are no links stay.
func Remove(dir string) error {
	var problems []error
	for _, name := range links {
		path := filepath.Join(dir, name)
		if to, err := os.Readlink(path); err == nil && to == File {
			problems = append(problems, os.Remove(path))
		}
	}
	if err := os.Remove(filepath.Join(dir, File)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
