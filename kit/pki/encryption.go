package pki

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// encryptionConfig is a Kubernetes EncryptionConfiguration: Secrets are encrypted by a local key, and what was stored in plain
// before stays readable.
const encryptionConfig = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources:
  - secrets
  providers:
  - aesgcm:
      keys:
      - name: key1
        secret: %s
  - identity: {}
`

// encryption makes the configuration by which the API server encrypts Secrets in the database, with a random 256-bit key.
// What is there is kept whatever it says: without its keys, the Secrets are lost.
func (d folder) encryption(role string) error {
	path := filepath.Join(role, "encryption.yaml")
	data, err := d.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // it never fails
		data, err = fmt.Appendf(nil, encryptionConfig, base64.StdEncoding.EncodeToString(key)), nil
	}
	if err != nil {
		return err
	}
	return d.write(path, data, 0o600)
}
