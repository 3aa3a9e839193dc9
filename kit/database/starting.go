package database

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// cannotConnectNow is what a server answers while it starts, stops or recovers
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const cannotConnectNow = "57P03"

// Starting reports whether an error is that of a database which may answer in a while: nobody has its name or listens on its port yet, it breaks off, is silent, or
// says that it starts. What is wrong with a password or a certificate stays wrong.
func Starting(err error) bool {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code == cannotConnectNow
	}
	var name *net.DNSError
	var network net.Error
	return errors.As(err, &name) || errors.As(err, &network) && network.Timeout() ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
