package sctptest

import (
	"bytes"
	"testing"
	"time"
)

// A client that vanishes without a word may begin again from the same port.
func TestAClientBeginsAgain(t *testing.T) {
	e, err := Listen("127.0.0.1:8132", "e")
	if err != nil {
		t.Fatal(err)
	}
	go e.Run()
	defer e.Close()
	for range 3 {
		c, err := Dial("127.0.0.1:8132", 45000, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := c.Write([]byte("word")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 64)
		if n, err := c.Read(got); err != nil || !bytes.Equal(got[:n], []byte("e word")) {
			t.Errorf("answered by %q, %v", got[:n], err)
		}
		c.(*association).wire.Close()
	}
}
