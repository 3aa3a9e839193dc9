package upgrade

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
)

// Backup writes a database to a new file by pg_dump, in its own format: pg_restore reads it.
func Backup(ctx context.Context, databaseURL, file string, out io.Writer) error {
	program, err := exec.LookPath("pg_dump")
	if err != nil {
		return fmt.Errorf("pg_dump is not on this machine (postgresql-client): back the database up elsewhere, and leave --backup out: %w", err)
	}
	u, err := url.Parse(databaseURL)
	if err != nil {
		return fmt.Errorf("the database's URL does not parse")
	}
	environment := os.Environ()
	if password, ok := u.User.Password(); ok { // not on the command line, which others see
		environment = append(environment, "PGPASSWORD="+password)
		u.User = url.User(u.User.Username())
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "[upgrade] backing the database up to %s\n", file)
	cmd := exec.CommandContext(ctx, program, "--format=custom", "--dbname="+u.String())
	cmd.Env, cmd.Stdout = environment, f
	var said tailWriter
	cmd.Stderr = &said
	err = cmd.Run()
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(file)
		return fmt.Errorf("pg_dump: %w: %s", err, said)
	}
	return nil
}

// tailWriter keeps the end of what is written to it.
type tailWriter []byte

func (t *tailWriter) Write(p []byte) (int, error) {
	const most = 2000
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-most):]
	return len(p), nil
}
