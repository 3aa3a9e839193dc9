package query

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

// Place is where a line stands in the order of all lines.
type Place struct {
	Time     time.Time
	Run      int64
	Position int64
}

// Token is what a page hands to the next one: the window, which options may have given relative to the first page's time, and the last place
// that was looked at.
type Token struct {
	Window
	After Place
}

const version = 1

var errToken = errors.New("it is no token of a page before")

// String is what users hand back.
func (t Token) String() string {
	b := []byte{version}
	for _, n := range []int64{t.Since.UnixMicro(), t.Until.UnixMicro(), t.After.Time.UnixMicro(), t.After.Run, t.After.Position} {
		b = binary.AppendVarint(b, n)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseToken reads a token.
func ParseToken(text string) (Token, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) == 0 || b[0] != version {
		return Token{}, errToken
	}
	var numbers [5]int64
	b = b[1:]
	for i := range numbers {
		n, size := binary.Varint(b)
		if size <= 0 {
			return Token{}, errToken
		}
		numbers[i], b = n, b[size:]
	}
	const most = int64(253402300800) * 1e6 // the year 10000
	for _, micro := range numbers[:3] {
		if micro < 0 || micro > most {
			return Token{}, errToken
		}
	}
	t := Token{Window{time.UnixMicro(numbers[0]), time.UnixMicro(numbers[1])}, Place{time.UnixMicro(numbers[2]), numbers[3], numbers[4]}}
	if len(b) > 0 || !t.Since.Before(t.Until) {
		return Token{}, errToken
	}
	return t, nil
}
