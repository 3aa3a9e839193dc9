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
