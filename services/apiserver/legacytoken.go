package apiserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/itself"
	"howdah.dev/services/apiserver/internal/token"
)

const (
	// usesWaiting is how many days of use may wait to be written; of more, that day is not.
	usesWaiting = 1000
	// useTimeout bounds the writing of one.
	useTimeout = 10 * time.Second
)

// tokenUses writes the day of their last use on the Secrets that hold tokens. Requests do not wait for it.
type tokenUses struct {
	api   lateAPI
	queue chan token.Use
}

func newTokenUses(api lateAPI) *tokenUses {
	return &tokenUses{api: api, queue: make(chan token.Use, usesWaiting)}
}

// note takes a use; it never blocks.
func (u *tokenUses) note(use token.Use) {
	select {
	case u.queue <- use:
	default:
		slog.Warn("the last use of a token is not written: too many wait", "namespace", use.Namespace, "name", use.Name)
	}
}

// Run writes until ctx ends.
func (u *tokenUses) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case use := <-u.queue:
			if err := u.write(ctx, use); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				slog.WarnContext(ctx, "the last use of a token is not written", "namespace", use.Namespace, "name", use.Name, "err", err)
			}
		}
	}
}

func (u *tokenUses) write(ctx context.Context, use token.Use) error {
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	ctx = itself.Context(ctx)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": use.UID, "labels": map[string]string{token.LastUsedLabel: use.Day}}})
	if err != nil {
		return err
	}
	_, err = u.api.Patch(ctx, &apiv1.PatchRequest{
		Version: "v1", Resource: "secrets", Namespace: use.Namespace, Name: use.Name, Object: patch, ContentType: string(types.MergePatchType),
	})
	return err
}
