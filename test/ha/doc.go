// Package ha loses the machines of a highly available compose cluster, one at a time: `make e2e-ha`.
package ha
