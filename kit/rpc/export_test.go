package rpc

import "time"

// Expire makes the identity read its key pair again at its next use.
func (id *Identity) Expire() {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.read = time.Time{}
}
