package initialize

import (
	"context"

	"howdah.dev/migrations"
)

func schemaPhase() Phase {
	return Phase{
		Name: "schema", Short: "Bring the database's schema up to date",
		Run: func(ctx context.Context, e *Env) error {
			e.say("[schema] bringing the database's schema up to date")
			return migrations.Apply(ctx, e.Cluster.Database.URL)
		},
		Tell: func(*Env) string { return "bring the database's schema up to date" },
	}
}
