// Package query reads what is asked of lines: words that they have to contain, when they were written, where a page ends.
package query

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of a query: each word is looked for in every line.
const (
	maxWords = 16
	maxBytes = 1024
)

// Words are what lines have to contain and must not, in any case.
type Words struct{ With, Without []string }

// Parse reads words: they stand apart by spaces, a phrase stands in double quotes (a quote in it as \"), and what begins with - must not be in
// the line.
func Parse(text string) (Words, error) {
	var w Words
	if len(text) > maxBytes {
		return w, fmt.Errorf("it is longer than %d bytes", maxBytes)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return w, errors.New("it is not UTF-8 text")
	}
	for rest := strings.TrimLeft(text, " \t\n"); rest != ""; rest = strings.TrimLeft(rest, " \t\n") {
		without := false
		if len(rest) > 1 && rest[0] == '-' {
			without, rest = true, rest[1:]
		}
		var word string
		var err error
		if rest[0] == '"' {
			word, rest, err = phrase(rest[1:])
		} else {
			end := strings.IndexAny(rest, " \t\n")
			if end < 0 {
				end = len(rest)
			}
			word, rest = rest[:end], rest[end:]
		}
		switch {
		case err != nil:
			return w, err
		case word == "":
			return w, errors.New("a phrase is empty")
		case without:
			w.Without = append(w.Without, word)
		default:
			w.With = append(w.With, word)
		}
	}
	if len(w.With)+len(w.Without) > maxWords {
		return w, fmt.Errorf("it has more than %d words", maxWords)
	}
	return w, nil
}

// phrase reads up to the closing quote.
func phrase(text string) (word, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		case text[i] == '"':
			return b.String(), text[i+1:], nil
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", errors.New(`a phrase has no closing "`)
}

// Patterns are the words as SQL's ILIKE takes them.
func Patterns(words []string) []string {
	out := make([]string, 0, len(words))
	for _, word := range words {
		out = append(out, "%"+escaper.Replace(word)+"%")
	}
	return out
}

var escaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
