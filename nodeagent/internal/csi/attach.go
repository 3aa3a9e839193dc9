package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/object"
)

const (
	// attachTimeout is how long a pod waits in one go until its volume is attached.
	attachTimeout = 2*time.Minute + 3*time.Second
	lookBase      = 50 * time.Millisecond
	lookMax       = time.Second
)

// attached waits until a volume is attached to the node, and returns what the driver said of it.
//
// The order matters: the Node's status says first that the volume is in use, which keeps the controller from detaching it, and only what the
// controller then still calls attached is taken for so.
func (v *Volumes) attached(ctx context.Context, w *Want) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	unique := object.AttachableName(w.driver(), w.handle())
	for gap := lookBase; ; gap = min(2*gap, lookMax) {
		said, err := v.lookAttached(ctx, w, unique)
		if err == nil {
			return said, nil
		}
		if _, waiting := errors.AsType[*notYet](err); !waiting {
			return nil, err
		}
		timer := v.cfg.Clock.NewTimer(gap)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: %w", err, ctx.Err())
		case <-timer.C():
		}
	}
}

// notYet says what an attachment waits for.
type notYet struct{ what string }

func (e *notYet) Error() string { return e.what }

// lookAttached looks once.
func (v *Volumes) lookAttached(ctx context.Context, w *Want, unique corev1.UniqueVolumeName) (map[string]string, error) {
	if !slices.Contains(v.cfg.Reported(), unique) {
		v.cfg.Changed()
		return nil, &notYet{"the node's status does not say yet that the volume is in use"}
	}
	node, err := v.cfg.Objects.Node(ctx, v.cfg.NodeName)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == unique }) {
		return nil, &notYet{"volume is not attached to the node yet"}
	}
	a, err := v.cfg.Objects.Attachment(ctx, object.AttachmentName(w.handle(), w.driver(), v.cfg.NodeName))
	switch {
	case apierrors.IsNotFound(err):
		return nil, &notYet{"volume attachment is not there yet"}
	case err != nil:
		return nil, err
	}
	return judge(a)
}

// judge says what an attachment means for who wants to use the volume.
func judge(a *storagev1.VolumeAttachment) (map[string]string, error) {
	switch {
	case a.DeletionTimestamp != nil:
		return nil, &notYet{fmt.Sprintf("volume attachment %s is being deleted", a.Name)}
	case a.Status.Attached:
		return a.Status.AttachmentMetadata, nil
	case a.Status.AttachError != nil:
		return nil, errors.New(a.Status.AttachError.Message)
	}
	return nil, &notYet{"volume attachment is not attached yet"}
}
