// Sctpecho is for pods of end-to-end tests, which need SCTP on machines whose kernel has none.
//
//	sctpecho listen ADDRESS:PORT NAME    answers every association with NAME and what came
//	sctpecho ask ADDRESS:PORT N          begins N associations, and prints who answered, a line each
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"howdah.dev/nodeagent/internal/sctptest"
)

// patience is how long an association and its answer may take.
const patience = 20 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sctpecho:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("want listen ADDRESS:PORT NAME, or ask ADDRESS:PORT N")
	}
	switch args[0] {
	case "listen":
		e, err := sctptest.Listen(args[1], args[2])
		if err != nil {
			return err
		}
		e.Run()
		return nil
	case "ask":
		n, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return ask(args[1], n)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// ask keeps all associations open until the last has been answered: then each is a choice of its own.
func ask(address string, n int) error {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for range n {
		c, err := sctptest.Dial(address, 0, patience)
		if err != nil {
			return err
		}
		open = append(open, c)
		c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, "word"); err != nil {
			return err
		}
		answer := make([]byte, 1024)
		read, err := c.Read(answer)
		if err != nil {
			return err
		}
		name, word, _ := strings.Cut(string(answer[:read]), " ")
		if word != "word" {
			return fmt.Errorf("sent \"word\", got %q", answer[:read])
		}
		fmt.Println(name)
	}
	return nil
}
