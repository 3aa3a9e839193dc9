package sealed

import (
	"bytes"
	"strings"
	"testing"
)

func TestSeal(t *testing.T) {
	t.Parallel()
	key := NewKey()
	files := map[string][]byte{"ca.key": []byte("the key"), "sa.key": []byte("another"), "empty": {}}
	boxes, err := Seal(key, files)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseKey(key.String())
	if err != nil || again != key {
		t.Fatalf("%v, %v", again, err)
	}
	got, err := Open(again, boxes)
	if err != nil || len(got) != len(files) {
		t.Fatal(got, err)
	}
	for name, data := range files {
		if !bytes.Equal(got[name], data) || bytes.Contains(boxes[name], []byte("key")) {
			t.Errorf("%s: %q, sealed %q", name, got[name], boxes[name])
		}
	}
	for name, change := range map[string]func(){
		"one for another": func() { boxes["ca.key"], boxes["sa.key"] = boxes["sa.key"], boxes["ca.key"] },
		"a bit":           func() { boxes["ca.key"][20] ^= 1 },
		"too short":       func() { boxes["sa.key"] = boxes["sa.key"][:5] },
	} {
		change()
		if _, err := Open(key, boxes); err == nil {
			t.Errorf("%s: it is opened", name)
		}
		if boxes, err = Seal(key, files); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(NewKey(), boxes); err == nil || !strings.Contains(err.Error(), "the certificate key is another") {
		t.Errorf("another key: %v", err)
	}
	for _, text := range []string{"", "ab", strings.Repeat("x", 64), key.String() + "00"} {
		if _, err := ParseKey(text); err == nil || (text != "" && strings.Contains(err.Error(), text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
