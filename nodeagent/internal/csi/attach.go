package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
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
//
// A driver that may be asked again how many volumes the node can have is, as soon as the attacher says that there are too many. As long as the pod
// waits another volume may go; when it has waited in vain that is the end (Exhausted).
func (v *Volumes) attached(ctx context.Context, w *Want, about *storagev1.CSIDriver) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	unique := object.AttachableName(w.driver(), w.handle())
	full := false
	for gap := lookBase; ; gap = min(2*gap, lookMax) {
		said, err := v.lookAttached(ctx, w, unique, about)
		if err == nil {
			return said, nil
		}
		wait, waiting := errors.AsType[*notYet](err)
		if !waiting {
			return nil, err
		}
		if wait.full && !full {
			v.cfg.Exhausted(w.driver())
		}
		full = wait.full
		timer := v.cfg.Clock.NewTimer(gap)
		select {
		case <-ctx.Done():
			timer.Stop()
			if full && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, &Exhausted{wait.what}
			}
			return nil, fmt.Errorf("%w: %w", err, ctx.Err())
		case <-timer.C():
		}
	}
}

// notYet says what an attachment waits for; full, that the node has as many volumes of the driver as it can have.
type notYet struct {
	what string
	full bool
}

func (e *notYet) Error() string { return e.what }

// Exhausted says that a volume could not be attached because the node has as many of the driver's as it can have.
type Exhausted struct{ Message string }

func (e *Exhausted) Error() string { return e.Message }

// counted reports whether it is told how many volumes of a driver a node can have as that changes.
func counted(about *storagev1.CSIDriver) bool {
	return about != nil && about.Spec.NodeAllocatableUpdatePeriodSeconds != nil
}

// exhausted reports whether an attacher has found that the node can have no more volumes.
func exhausted(a *storagev1.VolumeAttachment) bool {
	e := a.Status.AttachError
	return !a.Status.Attached && e != nil && e.ErrorCode != nil && codes.Code(*e.ErrorCode) == codes.ResourceExhausted
}

// lookAttached looks once.
func (v *Volumes) lookAttached(ctx context.Context, w *Want, unique corev1.UniqueVolumeName, about *storagev1.CSIDriver) (map[string]string, error) {
	if !slices.Contains(v.cfg.Reported(), unique) {
		v.cfg.Changed()
		return nil, &notYet{what: "the node's status does not say yet that the volume is in use"}
	}
	node, err := v.cfg.Objects.Node(ctx, v.cfg.NodeName)
	if err != nil {
		return nil, err
	}
	there := slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == unique })
	if !there && !counted(about) {
		return nil, &notYet{what: "volume is not attached to the node yet"}
	}
	a, err := v.cfg.Objects.Attachment(ctx, object.AttachmentName(w.handle(), w.driver(), v.cfg.NodeName))
	switch {
	case apierrors.IsNotFound(err):
		return nil, &notYet{what: "volume attachment is not there yet"}
	case err != nil:
		return nil, err
	case counted(about) && exhausted(a):
		return nil, &notYet{what: a.Status.AttachError.Message, full: true}
	case !there:
		return nil, &notYet{what: "volume is not attached to the node yet"}
	}
	return judge(a)
}

// judge says what an attachment means for who wants to use the volume.
func judge(a *storagev1.VolumeAttachment) (map[string]string, error) {
	switch {
	case a.DeletionTimestamp != nil:
		return nil, &notYet{what: fmt.Sprintf("volume attachment %s is being deleted", a.Name)}
	case a.Status.Attached:
		return a.Status.AttachmentMetadata, nil
	case a.Status.AttachError != nil:
		return nil, errors.New(a.Status.AttachError.Message)
	}
	return nil, &notYet{what: "volume attachment is not attached yet"}
}
