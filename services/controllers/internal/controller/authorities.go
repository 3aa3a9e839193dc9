package controller

import (
	"context"

	"howdah.dev/kit/pki"
)

// Authorities are those that the cluster's certificates are of, which may be replaced: pki.Bundle or pki.Authorities.
type Authorities interface {
	Now() *pki.Authorities
	// Follow calls changed each time there are others, until ctx ends.
	Follow(ctx context.Context, changed func()) error
}
