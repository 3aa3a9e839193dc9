// Package credfile knows the users of a file: by their token, as --token-auth-file has it, or by name and password, as the
// former --basic-auth-file had it.
package credfile

import (
	"context"
	"crypto/subtle"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"howdah.dev/services/apiserver/internal/authn"
)

// Tokens are users by token.
type Tokens map[string]*authn.User

// LoadTokens reads a file with the columns token, user name, user uid and, optionally, groups: "a,b". A line without a token is
// skipped; of lines with the same token, the last counts.
func LoadTokens(path string) (Tokens, error) {
	tokens := Tokens{}
	err := read(path, "token", func(line int, token string, user *authn.User) {
		switch {
		case token == "":
			slog.Warn("empty token in the token file", "path", path, "line", line)
			return
		case tokens[token] != nil:
			slog.Warn("a token stands twice in the token file", "path", path, "line", line)
		}
		tokens[token] = user
	})
	return tokens, err
}

// Holder returns the user of a token.
func (t Tokens) Holder(_ context.Context, token string) (*authn.User, error) {
	if user := t[token]; user != nil {
		return clone(user), nil
	}
	return nil, authn.ErrNotMine
}

// Passwords are users by name.
type Passwords map[string]login

type login struct {
	password string
	user     *authn.User
}

// LoadPasswords reads a file with the columns password, user name, user uid and, optionally, groups.
func LoadPasswords(path string) (Passwords, error) {
	passwords := Passwords{}
	err := read(path, "password", func(line int, password string, user *authn.User) {
		if password == "" || user.Name == "" {
			slog.Warn("a line without a password or a name in the password file", "path", path, "line", line)
			return
		}
		passwords[user.Name] = login{password, user}
	})
	return passwords, err
}

// VerifyPassword implements authn.PasswordVerifier.
func (p Passwords) VerifyPassword(_ context.Context, name, password string) (*authn.User, error) {
	known := p[name] // an unknown name is compared too
	if subtle.ConstantTimeCompare([]byte(known.password), []byte(password)) != 1 || known.user == nil {
		return nil, errors.New("the name or the password is wrong")
	}
	return clone(known.user), nil
}

func clone(u *authn.User) *authn.User {
	c := *u
	return &c
}

func read(path, what string, add func(line int, secret string, user *authn.User)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	r := csv.NewReader(file)
	r.FieldsPerRecord = -1
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s file %s: %w", what, path, err)
		}
		line, _ := r.FieldPos(0)
		if len(record) < 3 {
			return fmt.Errorf("%s file %q must have at least 3 columns (%s, user name, user uid), found %d in line %d", what, path, what, len(record), line)
		}
		user := &authn.User{Name: record[1], UID: record[2]}
		if len(record) >= 4 && record[3] != "" {
			user.Groups = strings.Split(record[3], ",")
		}
		add(line, record[0], user)
	}
}
