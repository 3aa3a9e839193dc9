package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/itself"
	"howdah.dev/services/apiserver/internal/kind/definition"
	"howdah.dev/services/apiserver/internal/registry"
)

// API is what keeping the status needs of the object service.
type API interface {
	Update(ctx context.Context, req *apiv1.UpdateRequest) (*apiv1.UpdateResponse, error)
	// Purge begins the deletion of all objects of a kind, whatever admission says.
	Purge(ctx context.Context, kind *registry.Kind) error
}

// Keeper writes the status of definitions, and deletes the objects of those that are deleted.
type Keeper struct {
	Follower *Follower
	API      API
	Cache    *cache.Cache
	Clock    clock.WithTicker
}

const (
	retryMin = 50 * time.Millisecond
	retryMax = 5 * time.Second
	// recheck is how often an unfinished deletion is begun again: objects may have come late from another apiserver.
	recheck = 5 * time.Second
	// writeTimeout bounds one write.
	writeTimeout = 30 * time.Second
)

// Run keeps the definitions until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-k.Cache.Ready():
	}
	ctx = itself.Context(ctx)
	var ends sync.WaitGroup
	defer ends.Wait()
	ending := map[string]bool{}
	done := make(chan string)
	wait := retryMin
	for {
		failed := false
		for _, d := range k.Follower.state() {
			if d.deleting && d.held && !ending[d.item.Key] {
				ending[d.item.Key] = true
				ends.Go(func() {
					k.finish(ctx, d)
					select {
					case done <- d.item.Key:
					case <-ctx.Done():
					}
				})
			}
		}
		if err := k.settle(ctx); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "write the status of custom resource definitions", "err", err)
			failed = true
		}
		var again <-chan time.Time
		if failed {
			again, wait = k.Clock.After(wait), min(2*wait, retryMax)
		} else {
			wait = retryMin
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.Follower.wake:
		case key := <-done:
			delete(ending, key)
		case <-again:
		}
	}
}

// settle writes every status that is not what it should be. Conflicts are others' changes, which wake the loop again.
func (k *Keeper) settle(ctx context.Context) error {
	all := k.Follower.state()
	summaries := make([]summary, len(all))
	for n, d := range all {
		summaries[n] = d.summary
	}
	for n, d := range all {
		c, differs := plan(d.summary, summaries)
		if !differs {
			continue
		}
		// What this one takes, the later ones do not get.
		summaries[n].accepted = c.accepted
		if err := k.write(ctx, d, c.apply); err != nil {
			return err
		}
	}
	return nil
}

func (c change) apply(d *crd, now time.Time) {
	d.Status.AcceptedNames = c.accepted
	for _, one := range c.conditions {
		definition.SetCondition(d, one, now)
	}
	if c.structural {
		d.Status.Conditions = slices.DeleteFunc(d.Status.Conditions, func(c condition) bool { return c.Type == apiextensionsv1.NonStructuralSchema })
	}
}

// write changes a definition where it still is what is known of it; where it is not, somebody else's change is seen to next.
func (k *Keeper) write(ctx context.Context, known *known, edit func(d *crd, now time.Time)) error {
	d, err := decode(known.item)
	if err != nil {
		return err
	}
	edit(d, k.Clock.Now())
	d.ResourceVersion = fmt.Sprint(known.item.Revision)
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = k.API.Update(ctx, &apiv1.UpdateRequest{
		Group: apiextensionsv1.GroupName, Version: "v1", Resource: "customresourcedefinitions", Name: d.Name, Subresource: "status", Object: body,
	})
	if code := apistatus.Of(err).Code; err != nil && (code == 404 || code == 409) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("status of %s: %w", d.Name, err)
	}
	return nil
}
