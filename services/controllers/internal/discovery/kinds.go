package discovery

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
)

const (
	// Keep is for how long what is served is taken as it was read.
	Keep = 30 * time.Second
	// keepNothing is for how long a kind is not looked for again that was not there.
	keepNothing = time.Second
)

// Kinds finds the resources of kinds, by discovery. It is safe for concurrent use.
type Kinds struct {
	client *object.Client
	clock  clock.PassiveClock

	mu     sync.Mutex
	groups map[string]served
}

// served is what a group serves as of a time.
type served struct {
	resources []Resource
	at        time.Time
}

// NewKinds returns a finder that has read nothing yet.
func NewKinds(client *object.Client, c clock.PassiveClock) *Kinds {
	return &Kinds{client: client, clock: c, groups: map[string]served{}}
}

// Find returns the resources of a kind, of which there is at least one, those of its group's preferred version first.
func (k *Kinds) Find(ctx context.Context, kind schema.GroupKind) ([]Resource, error) {
	k.mu.Lock()
	known, now := k.groups[kind.Group], k.clock.Now()
	k.mu.Unlock()
	age := now.Sub(known.at)
	found := known.of(kind)
	if len(found) > 0 && age < Keep {
		return found, nil
	}
	if len(found) == 0 && age < keepNothing {
		return nil, &meta.NoKindMatchError{GroupKind: kind}
	}
	resources, err := Group(ctx, k.client, kind.Group)
	fresh := served{resources, now}
	if found = fresh.of(kind); len(found) == 0 && err != nil {
		return nil, err
	}
	k.mu.Lock()
	k.groups[kind.Group] = fresh
	k.mu.Unlock()
	if len(found) == 0 {
		return nil, &meta.NoKindMatchError{GroupKind: kind}
	}
	return found, nil
}

func (s served) of(kind schema.GroupKind) []Resource {
	var found []Resource
	for _, r := range s.resources {
		if r.GVK.GroupKind() == kind {
			found = append(found, r)
		}
	}
	return found
}
