package apiserver

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/metadata"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// TestADeposedLeaderWritesNothing checks the fence from the call's metadata down to the transaction.
func TestADeposedLeaderWritesNothing(t *testing.T) {
	f := startPostgres(t)
	conn, err := pgx.Connect(f.ctx, f.server.cfg.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(f.ctx) }()
	elect := func(epoch int) {
		_, err := conn.Exec(f.ctx, `INSERT INTO howdah.leadership VALUES ('scheduler', $1, 'me', now())
			ON CONFLICT (role) DO UPDATE SET epoch = excluded.epoch`, epoch)
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(fence, name string) error {
		ctx := metadata.NewOutgoingContext(f.ctx, metadata.Pairs("howdah-fence", fence))
		_, err := f.api.Create(ctx, &apiv1.CreateRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Object: []byte(`{"metadata":{"name":"` + name + `"}}`)})
		return err
	}
	elect(1)
	if err := create("scheduler/1", "a"); err != nil {
		t.Errorf("the leader: %v", err)
	}
	elect(2)
	if err := create("scheduler/1", "b"); status(err).Code != 403 {
		t.Errorf("the deposed leader: %v", err)
	}
	if _, err := f.get("v1/configmaps", "default", "b"); status(err).Code != 404 {
		t.Error("a write of a deposed leader landed")
	}
	if err := create("scheduler/2", "b"); err != nil {
		t.Errorf("the new leader: %v", err)
	}
	for _, bad := range []string{"scheduler", "scheduler/x", "/1"} {
		if err := create(bad, "c"); status(err).Code != 400 {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
