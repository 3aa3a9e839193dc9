package main

import (
	"os"

	"howdah.dev/kit/lease"
)

// newLeadership returns this process's part in the election of a role.
func newLeadership(databaseURL, role string) (*lease.Lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return lease.New(lease.Config{DatabaseURL: databaseURL, Role: role, Holder: host})
}
