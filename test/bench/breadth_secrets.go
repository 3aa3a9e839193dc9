package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// secretRequests are those of secrets, which are encrypted in the database where --encrypt names how.
func secretRequests(ctx context.Context, w *wide) ([]request, error) {
	const listed = 500
	secrets := w.client.CoreV1().Secrets(w.namespace)
	err := w.each(ctx, listed, func(ctx context.Context, i int) error {
		secret := benchSecret(fmt.Sprint("listed-", i))
		secret.Labels["listed"] = ""
		_, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	var held [breadthClients]*corev1.Secret
	path := "/api/v1/namespaces/" + w.namespace + "/secrets"
	return []request{
		{name: "secret create at rest", call: func(ctx context.Context, worker, i int) error {
			_, err := secrets.Create(ctx, benchSecret(fmt.Sprintf("secret-%d-%d", worker, i)), metav1.CreateOptions{})
			return err
		}},
		{name: "secret update at rest", ready: func(ctx context.Context) error {
			return w.each(ctx, breadthClients, func(ctx context.Context, i int) (err error) {
				held[i], err = secrets.Create(ctx, benchSecret(fmt.Sprint("updated-", i)), metav1.CreateOptions{})
				return err
			})
		}, call: func(ctx context.Context, worker, i int) (err error) {
			held[worker].Data["tls.key"] = fmt.Append(nil, "key ", i)
			held[worker], err = secrets.Update(ctx, held[worker], metav1.UpdateOptions{})
			return err
		}},
		{name: "secret get at rest", call: func(ctx context.Context, worker, i int) error {
			_, err := secrets.Get(ctx, fmt.Sprint("listed-", (i*breadthClients+worker)%listed), metav1.GetOptions{})
			return err
		}},
		{name: "list of 500 secrets at rest", clients: 4, call: w.wire.got(path + "?labelSelector=listed")},
		{name: "list of 500 secrets at rest, JSON", clients: 4, call: w.wire.with("Accept", jsonMedia).got(path + "?labelSelector=listed")},
	}, nil
}

// ciphers are what --encrypt takes: how secrets may be encrypted in the database. Keys of 32 bytes are good for all of them.
var ciphers = []string{"aescbc", "aesgcm", "secretbox"}

// encryption writes the configuration of a cipher into dir, and returns the flags that name it; none for no cipher.
func encryption(dir, cipher string) ([]string, error) {
	if cipher == "" {
		return nil, nil
	}
	if !slices.Contains(ciphers, cipher) {
		return nil, fmt.Errorf("--encrypt: %q is none of %q", cipher, ciphers)
	}
	key := sha256.Sum256([]byte("a key that nothing is kept under"))
	text := fmt.Sprintf(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources":["secrets"],"providers":[
		{%q:{"keys":[{"name":"bench","secret":%q}]}},{"identity":{}}]}]}`, cipher, base64.StdEncoding.EncodeToString(key[:]))
	path := filepath.Join(dir, "encryption.json")
	return []string{"--encryption-provider-config=" + path}, os.WriteFile(path, []byte(text), 0o600)
}
