package database

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Confirmed is an expression that makes the statement it stands in a transaction that is to be replicated, where replication is synchronous.
//
// A primary whose place another took, and that does not know it yet (its machine was stopped and goes on, or is cut off), cannot finish such a
// transaction: its synchronous replicas follow another. So an answer to such a statement comes from the primary, and tells nothing that could
// still be lost: the transaction comes after all that it can have seen, and the replicas have all that is before it. Without synchronous
// replication it does nothing.
const Confirmed = `CASE WHEN current_setting('synchronous_standby_names') <> '' AND
     set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true) <> ''
     THEN pg_logical_emit_message(true, 'howdah', '') IS NOT NULL ELSE true END`

// primarySQL answers whether the server takes writes, and proves it. A session may have chosen to be read-only for itself.
const primarySQL = `
SELECT CASE WHEN pg_is_in_recovery() OR EXISTS (
            SELECT FROM pg_settings WHERE name = 'default_transaction_read_only' AND setting = 'on' AND source <> 'client')
       THEN false ELSE ` + Confirmed + ` END`

var (
	// ErrUnreplicated is the outcome of a transaction that is committed on the primary, while somebody cut the wait for its replicas short.
	ErrUnreplicated = errors.New("the wait for the replication of a commit was cut short")
	errReadOnly     = errors.New("the server takes no writes")
	errNoCancel     = errors.New("this connection's statements are not cancelled")
)

// isPrimary is a connection's check where there are several servers.
func isPrimary(ctx context.Context, conn *pgconn.PgConn) error {
	// It is one statement without arguments: the server sends the answer in text.
	result := conn.ExecParams(ctx, primarySQL, nil, nil, nil, nil).Read()
	switch {
	case result.Err != nil:
		return fmt.Errorf("ask whether the server is the primary: %w", result.Err)
	case len(result.Rows) != 1 || len(result.Rows[0]) != 1 || string(result.Rows[0][0]) != "t":
		return errReadOnly
	}
	return Replicated(conn)
}

// unreplicated marks a connection in its CustomData.
const unreplicated = "howdah-unreplicated"

// noteUnreplicated listens for the warning with which PostgreSQL gives a wait for replicas up: it reports success all the same.
func noteUnreplicated(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.Routine == "SyncRepWaitForLSN" {
		conn.CustomData()[unreplicated] = true
	}
}

// Replicated answers ErrUnreplicated when a commit over the connection was reported as done without its replicas' having it. Such a connection is of
// no more use: who asks it for a commit has to ask this, too.
func Replicated(conn *pgconn.PgConn) error {
	if conn.CustomData()[unreplicated] != nil {
		return ErrUnreplicated
	}
	return nil
}

// Uncancelled has one connection that is made with the configuration never cancel a statement whose caller stops waiting, once seal was called.
//
// A commit that waits for its replicas and is cancelled becomes visible on the primary: others read it, and when the primary fails, it is gone.
// Left alone it waits until it is replicated, or for the end of the server.
func Uncancelled(config *pgx.ConnConfig) (seal func()) {
	var sealed atomic.Bool
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if sealed.Load() {
			return nil, errNoCancel // a request for cancellation is a connection of its own
		}
		return dial(ctx, network, address)
	}
	return func() { sealed.Store(true) }
}
