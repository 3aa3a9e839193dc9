package postgres

import "context"

// MaintainOnce runs one round of maintenance now, or right after the one that is under way. The store need not run.
func (s *Store) MaintainOnce(ctx context.Context) error {
	var retry backoff
	for {
		if mine, err := (&maintainer{store: s}).round(ctx); err != nil || mine {
			return err
		}
		if err := retry.wait(ctx); err != nil {
			return err
		}
	}
}

// LookAtRoom measures the database now. The store must run.
func (s *Store) LookAtRoom(ctx context.Context) error { return s.lookAtRoom(ctx) }

// MostRevisions answers how many revisions a new partition had at most with a quota.
func (s *Store) MostRevisions(ctx context.Context, quota int64) (int64, error) {
	conn, err := s.dial.connect(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer closeNow(conn)
	newest, err := s.Revision(ctx)
	if err != nil {
		return 0, err
	}
	other := Store{cfg: Config{Quota: quota}}
	return other.mostRevisions(ctx, conn, newest)
}

// BeFull has the store take its quota for used up.
func (s *Store) BeFull() { s.scarce.Store(int32(full)) }
