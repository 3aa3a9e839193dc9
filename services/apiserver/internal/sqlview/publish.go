package sqlview

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/database"
	"howdah.dev/services/apiserver/internal/registry"
)

const (
	// publishTimeout bounds one attempt.
	publishTimeout = 30 * time.Second
	// every is how often it is looked whether the kinds have changed: custom ones come and go.
	every = time.Minute
	// lock keeps two API servers from publishing at once.
	lock = 0x686f777a
)

// Run publishes the kinds, and again when they have changed, until ctx ends.
func Run(ctx context.Context, databaseURL string, kinds func() []*registry.Kind) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	published := ""
	for {
		sum, err := Publish(ctx, databaseURL, published, kinds())
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot publish the kinds for SQL", "err", err)
		}
		published = sum
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Publish writes the description of the kinds where the database has another one. It answers the sum of what stands there;
// where that is known to be it already, the database is not asked.
func Publish(ctx context.Context, databaseURL, known string, kinds []*registry.Kind) (string, error) {
	rows, fields := Describe(kinds)
	content, err := json.Marshal([]any{rows, fields})
	if err != nil {
		return known, err
	}
	digest := sha256.Sum256(content)
	sum := hex.EncodeToString(digest[:])
	if sum == known {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	conn, err := database.Connect(ctx, databaseURL)
	if err != nil {
		return known, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return replace(ctx, tx, sum, rows, fields) })
	if err != nil {
		return known, err
	}
	return sum, nil
}

func replace(ctx context.Context, tx pgx.Tx, sum string, kinds []Kind, fields []Field) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", lock); err != nil {
		return fmt.Errorf("wait for others: %w", err)
	}
	var stands string
	err := tx.QueryRow(ctx, "SELECT sum FROM howdah_api.published").Scan(&stands)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read what is published: %w", err)
	}
	if stands == sum {
		return nil
	}
	if _, err := tx.Exec(ctx, "DELETE FROM howdah_api.kind; DELETE FROM howdah_api.field; DELETE FROM howdah_api.published"); err != nil {
		return fmt.Errorf("clear: %w", err)
	}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"howdah_api", "kind"},
		[]string{"prefix", "api_group", "version", "kind", "resource", "namespaced", "message", "concealed"},
		pgx.CopyFromSlice(len(kinds), func(i int) ([]any, error) {
			k := kinds[i]
			return []any{k.Prefix, k.Group, k.Version, k.Kind, k.Resource, k.Namespaced, k.Message, k.Concealed}, nil
		}))
	if err != nil {
		return fmt.Errorf("publish kinds: %w", err)
	}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"howdah_api", "field"},
		[]string{"message", "number", "name", "type", "of", "of_of", "repeated", "inlined", "omitted"},
		pgx.CopyFromSlice(len(fields), func(i int) ([]any, error) {
			f := fields[i]
			return []any{f.Message, f.Number, f.Name, f.Type, f.Of, f.OfOf, f.Repeated, f.Inlined, f.Omitted}, nil
		}))
	if err != nil {
		return fmt.Errorf("publish fields: %w", err)
	}
	if _, err := tx.Exec(ctx, "INSERT INTO howdah_api.published VALUES ($1)", sum); err != nil {
		return fmt.Errorf("publish the sum: %w", err)
	}
	return nil
}
