// Package sealed encrypts what further control planes need to know, so that it may lie in the cluster for a while: each file by AES-256-GCM with the certificate
// key, which only the administrator has, and with its own name, so that none can be taken for another.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
)

// Key is a certificate key.
type Key [32]byte

// NewKey makes one by chance.
func NewKey() Key {
	var k Key
	_, _ = rand.Read(k[:]) // it never fails
	return k
}

// ParseKey reads a key. Its error does not repeat what may be a secret.
func ParseKey(text string) (Key, error) {
	data, err := hex.DecodeString(text)
	if err != nil || len(data) != len(Key{}) {
		return Key{}, errors.New("a certificate key is 64 hexadecimal digits")
	}
	return Key(data), nil
}

func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Seal encrypts files by name.
func Seal(k Key, files map[string][]byte) (map[string][]byte, error) {
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(files))
	for name, data := range files {
		nonce := make([]byte, aead.NonceSize())
		_, _ = rand.Read(nonce)
		out[name] = aead.Seal(nonce, nonce, data, []byte(name))
	}
	return out, nil
}

// Open decrypts what Seal has made.
func Open(k Key, boxes map[string][]byte) (map[string][]byte, error) {
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(boxes))
	for name, box := range boxes {
		if len(box) < aead.NonceSize() {
			return nil, fmt.Errorf("%s: it is too short", name)
		}
		nonce, rest := box[:aead.NonceSize()], box[aead.NonceSize():]
		if out[name], err = aead.Open(nil, nonce, rest, []byte(name)); err != nil {
			return nil, fmt.Errorf("%s: the certificate key is another, or the content was changed", name)
		}
	}
	return out, nil
}

func (k Key) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
