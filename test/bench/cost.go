package main

import (
	"syscall"
	"time"
)

// cost is processor time, in seconds, since the processes' start.
type cost struct{ server, database, client float64 }

// cost reads what the server, the database that was started for it, and this process have used.
func (b *bench) cost() cost {
	c := cost{client: ownSeconds()}
	if b.target == nil {
		return c
	}
	// A process that cannot be read has ended, and the scenario fails for that.
	c.server, _ = cpuSeconds(b.target.server)
	if b.target.database != 0 {
		c.database = treeSeconds(b.target.database)
	}
	return c
}

// per fills in what each of n operations cost since before.
func (f *figure) per(n int, before, after cost) {
	if n == 0 {
		return
	}
	us := func(a, b float64) float64 { return float64(int64((b - a) * 1e6 / float64(n))) }
	f.Server, f.Database, f.Client = us(before.server, after.server), us(before.database, after.database), us(before.client, after.client)
}

func ownSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return (time.Duration(usage.Utime.Nano()) + time.Duration(usage.Stime.Nano())).Seconds()
}
