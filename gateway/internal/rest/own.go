package rest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/grpc"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/feed"
)

type watchStream = grpc.ServerStreamingClient[apiv1.WatchResponse]

const (
	// leastWatch is the shortest time after which a watch is ended whose client names none; it lasts up to twice that, as at the API server.
	leastWatch = 30 * 60
	// keepPatience is how long the loss of a client's own watch is overcome before the client is left to do that.
	keepPatience = 30 * time.Second
	// leastPause and mostPause are between two attempts.
	leastPause, mostPause = 50 * time.Millisecond, 2 * time.Second
	// early is how much before its time a watch may end and still have ended by its time.
	early = time.Second
)

// ownWatch is a client's own watch beside the feed that it follows: for the API server it is the client's request.
type ownWatch struct {
	client   apiv1.ObjectServiceClient
	request  *apiv1.WatchRequest
	follower *feed.Follower
	deadline time.Time
}

// join makes the request one that leaves to the feed what the feed tells.
func (o *ownWatch) join(follower *feed.Follower) {
	o.follower = follower
	o.request.JoinAfter = follower.From()
	if o.request.TimeoutSeconds <= 0 {
		o.request.TimeoutSeconds = leastWatch + rand.Int64N(leastWatch)
	}
	o.deadline = time.Now().Add(time.Duration(o.request.TimeoutSeconds) * time.Second)
}

// keep waits for the end of the watch, which says nothing any more. Where an API server goes, it opens the watch anew: the feed goes
// on meanwhile. It returns what the client is to be told, nil for a clean end.
func (o *ownWatch) keep(ctx context.Context, stream watchStream) error {
	var lost time.Time
	var pause time.Duration
	for {
		began := time.Now()
		err := drain(stream)
		switch {
		case ctx.Err() != nil || time.Until(o.deadline) < early:
			return nil
		case !errors.Is(err, io.EOF) && !interrupted(err):
			return err
		}
		if lost.IsZero() || time.Since(began) > keepPatience {
			lost, pause = time.Now(), leastPause
		}
		for {
			if time.Since(lost) > keepPatience || !sleep(ctx, pause) {
				return nil
			}
			pause = min(2*pause, mostPause)
			if stream, err = o.again(ctx); err == nil {
				break
			}
			if !interrupted(err) {
				return nil // the client will ask, and be told
			}
		}
	}
}

// again opens the watch where the feed is now.
func (o *ownWatch) again(ctx context.Context) (watchStream, error) {
	left := int64(time.Until(o.deadline)/time.Second) + 1
	revision := o.follower.Revision()
	stream, err := o.client.Watch(ctx, &apiv1.WatchRequest{
		Group: o.request.Group, Version: o.request.Version, Resource: o.request.Resource, Namespace: o.request.Namespace, Name: o.request.Name,
		LabelSelector: o.request.LabelSelector, FieldSelector: o.request.FieldSelector, Accept: o.request.Accept, IncludeObject: o.request.IncludeObject,
		ResourceVersion: strconv.FormatInt(revision, 10), JoinAfter: revision, TimeoutSeconds: left,
	})
	if err != nil {
		return nil, err
	}
	_, err = stream.Recv()
	return stream, err
}

// drain reads a stream to its end.
func drain(stream watchStream) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

// sleep reports whether it has slept for d before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
