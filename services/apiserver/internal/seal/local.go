package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"golang.org/x/crypto/nacl/secretbox"
)

// errTampered says no more than that: why it fails is nobody's business.
var errTampered = errors.New("the stored data is damaged, belongs to another key, or was sealed with another secret")

// local is a cipher whose secret this process holds. Each binds what it seals to the store key, so that a sealed value that
// is copied under another key does not open there.
type local interface {
	seal(key string, plain []byte) ([]byte, error)
	open(key string, sealed []byte) ([]byte, error)
}

// keyed is a local cipher as a provider.
type keyed struct {
	local
	name string
}

func (k keyed) prefix() string { return k.name }

func (k keyed) seal(_ context.Context, key string, plain []byte) ([]byte, error) {
	return k.local.seal(key, plain)
}

func (k keyed) open(_ context.Context, key string, sealed []byte) ([]byte, bool, error) {
	plain, err := k.local.open(key, sealed)
	return plain, false, err
}

// derived is AES-256-GCM under a key of its own for every write, derived from the secret and 32 random bytes by HKDF: so
// no number of writes makes a nonce repeat under one key.
//
//	32 bytes of salt | 12 bytes of nonce | ciphertext and tag; the store key is authenticated with it
type derived struct{ secret []byte }

const saltSize = 32

func (d derived) aead(salt []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, d.secret, salt, "howdah storage aes-gcm", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func (d derived) seal(key string, plain []byte) ([]byte, error) {
	const head = saltSize + 12
	out := make([]byte, head, head+len(plain)+16)
	_, _ = rand.Read(out) // it never fails
	aead, err := d.aead(out[:saltSize])
	if err != nil {
		return nil, err
	}
	return aead.Seal(out, out[saltSize:head], plain, []byte(key)), nil
}

func (d derived) open(key string, sealed []byte) ([]byte, error) {
	const head = saltSize + 12
	if len(sealed) < head {
		return nil, errTampered
	}
	aead, err := d.aead(sealed[:saltSize])
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, sealed[saltSize:head], sealed[head:], []byte(key))
	if err != nil {
		return nil, errTampered
	}
	return plain, nil
}

// cbc is AES-CBC, authenticated by HMAC-SHA256 over store key, vector and ciphertext.
//
//	16 bytes of vector | ciphertext, padded as PKCS #7 does | 32 bytes of HMAC
type cbc struct {
	block cipher.Block
	mac   []byte
}

func newCBC(secret []byte) (cbc, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "howdah storage aes-cbc", len(secret))
	if err != nil {
		return cbc{}, err
	}
	mac, err := hkdf.Key(sha256.New, secret, nil, "howdah storage aes-cbc hmac", 32)
	if err != nil {
		return cbc{}, err
	}
	block, err := aes.NewCipher(key)
	return cbc{block, mac}, err
}

func (c cbc) seal(key string, plain []byte) ([]byte, error) {
	pad := aes.BlockSize - len(plain)%aes.BlockSize
	out := make([]byte, aes.BlockSize+len(plain)+pad, aes.BlockSize+len(plain)+pad+sha256.Size)
	_, _ = rand.Read(out[:aes.BlockSize])
	body := out[aes.BlockSize:]
	copy(body, plain)
	for i := len(plain); i < len(body); i++ {
		body[i] = byte(pad)
	}
	cipher.NewCBCEncrypter(c.block, out[:aes.BlockSize]).CryptBlocks(body, body)
	return c.sum(key, out).Sum(out), nil
}

func (c cbc) open(key string, sealed []byte) ([]byte, error) {
	n := len(sealed) - sha256.Size
	if n < 2*aes.BlockSize || n%aes.BlockSize != 0 {
		return nil, errTampered
	}
	if !hmac.Equal(c.sum(key, sealed[:n]).Sum(nil), sealed[n:]) {
		return nil, errTampered
	}
	plain := make([]byte, n-aes.BlockSize)
	cipher.NewCBCDecrypter(c.block, sealed[:aes.BlockSize]).CryptBlocks(plain, sealed[aes.BlockSize:n])
	pad := int(plain[len(plain)-1])
	if pad == 0 || pad > aes.BlockSize {
		return nil, errTampered
	}
	return plain[:len(plain)-pad], nil
}

func (c cbc) sum(key string, data []byte) hash.Hash {
	mac := hmac.New(sha256.New, c.mac)
	mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(key))))
	mac.Write([]byte(key))
	mac.Write(data)
	return mac
}

// box is XSalsa20-Poly1305. It authenticates nothing beside its content, so the store key's hash is part of that.
//
//	24 bytes of nonce | box of (32 bytes of SHA-256 of the store key | content)
type box struct{ secret [32]byte }

func (b box) seal(key string, plain []byte) ([]byte, error) {
	var nonce [24]byte
	_, _ = rand.Read(nonce[:])
	bound := sha256.Sum256([]byte(key))
	return secretbox.Seal(nonce[:], append(bound[:], plain...), &nonce, &b.secret), nil
}

func (b box) open(key string, sealed []byte) ([]byte, error) {
	if len(sealed) < 24 {
		return nil, errTampered
	}
	plain, ok := secretbox.Open(nil, sealed[24:], (*[24]byte)(sealed[:24]), &b.secret)
	bound := sha256.Sum256([]byte(key))
	if !ok || len(plain) < len(bound) || !hmac.Equal(plain[:len(bound)], bound[:]) {
		return nil, errTampered
	}
	return plain[len(bound):], nil
}

// identity leaves everything as it is. It refuses to pass off as plain what is sealed.
type identity struct{}

func (identity) prefix() string { return "" }

func (identity) seal(_ context.Context, _ string, plain []byte) ([]byte, error) { return plain, nil }

func (identity) open(_ context.Context, _ string, stored []byte) ([]byte, bool, error) {
	if Sealed(stored) {
		return nil, false, fmt.Errorf("identity transformer tried to read encrypted data")
	}
	return stored, false, nil
}
