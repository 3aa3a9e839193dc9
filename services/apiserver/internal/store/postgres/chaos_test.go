package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/pgtest/proxy"
	"howdah.dev/migrations"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/apiserver/internal/store/postgres"
	"howdah.dev/services/apiserver/internal/store/storetest"
)

// TestChaos breaks PostgreSQL and the connections to it in every way we know while two stores work; HOWDAH_CHAOS_SECONDS
// makes it longer than 20 s. One of the stores goes through a network that can be cut and frozen.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 25 s")
	}
	server := pgtest.Start(t, pgtest.Config{TCP: true})
	if err := migrations.Apply(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	network := proxy.Start(t, server.Address())
	far := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", network.Address())
	config := postgres.Config{PartitionSize: 5000, CommitTimeout: 1500 * time.Millisecond}
	stores := make([]store.Store, 2)
	for i, url := range []string{server.URL(), far} {
		config.DatabaseURL = url
		stores[i] = openQuiet(t, config)
	}
	duration := 20 * time.Second
	if text := os.Getenv("HOWDAH_CHAOS_SECONDS"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		duration = time.Duration(seconds) * time.Second
	}
	storetest.Chaos(t, stores, func() {
		faults := []func(){
			func() {
				server.Kill9()
				restart(t, server)
			},
			func() { restart(t, server) }, // in order
			func() { terminate(t, server, "true") },
			func() { terminate(t, server, "application_name LIKE '%listen'") },
			func() { terminate(t, server, "application_name LIKE '%commit'") },
			network.Cut,
			func() {
				network.Freeze()
				pause(time.Second)
				network.Thaw()
			},
			func() { // longer than commits and reads wait
				network.Freeze()
				pause(2 * time.Second)
				network.Cut()
				network.Thaw()
			},
		}
		for begin, i := time.Now(), 0; time.Since(begin) < duration; i++ {
			pause(time.Duration(200+rand.IntN(800)) * time.Millisecond)
			faults[i%len(faults)]()
		}
		pause(500 * time.Millisecond)
	})
}

// pause is how long a fault lasts, or how long there is none: no event ends it.
func pause(d time.Duration) { time.Sleep(d) }

func restart(t *testing.T, server *pgtest.Server) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := server.Restart(ctx); err != nil {
		t.Errorf("restart: %v", err)
	}
}

func terminate(t *testing.T, server *pgtest.Server, which string) {
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Errorf("connect: %v", err)
		return
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND "+which)
	if err != nil {
		t.Errorf("terminate: %v", err)
	}
}
