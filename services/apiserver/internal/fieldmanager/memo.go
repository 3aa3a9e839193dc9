package fieldmanager

import (
	"crypto/sha256"

	"howdah.dev/kit/recent"
)

// digest names what an outcome follows from.
type digest [sha256.Size]byte

// memo remembers outcomes by what they follow from. They are shared and not to be changed.
type memo[V any] = recent.Map[digest, V]
