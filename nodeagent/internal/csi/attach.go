package csi

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/attach"
)

// attached waits until a volume is attached to the node, and returns what the driver said of it.
//
// A driver that may be asked again how many volumes the node can have is, as soon as the attacher says that there are too many. As long as the pod
// waits another volume may go; when it has waited in vain that is the end (Exhausted).
func (v *Volumes) attached(ctx context.Context, w *Want, about *storagev1.CSIDriver) (said map[string]string, err error) {
	full := ""
	err = v.cfg.Waiter.Wait(ctx, object.AttachableName(w.Driver(), w.handle()), func(ctx context.Context, yet error) error {
		before := full
		full = ""
		if yet != nil && !counted(about) {
			return yet
		}
		a, err := v.cfg.Objects.Attachment(ctx, object.AttachmentName(w.handle(), w.Driver(), v.cfg.NodeName))
		switch {
		case apierrors.IsNotFound(err):
			return &attach.NotYet{What: "volume attachment is not there yet"}
		case err != nil:
			return err
		case counted(about) && exhausted(a):
			if full = a.Status.AttachError.Message; before == "" {
				v.cfg.Exhausted(w.Driver())
			}
			return &attach.NotYet{What: full}
		case yet != nil:
			return yet
		}
		said, err = judge(a)
		return err
	})
	switch {
	case err == nil:
		return said, nil
	case full != "" && errors.Is(err, context.DeadlineExceeded):
		return nil, &Exhausted{full}
	}
	return nil, err
}

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

// judge says what an attachment means for who wants to use the volume.
func judge(a *storagev1.VolumeAttachment) (map[string]string, error) {
	switch {
	case a.DeletionTimestamp != nil:
		return nil, &attach.NotYet{What: fmt.Sprintf("volume attachment %s is being deleted", a.Name)}
	case a.Status.Attached:
		return a.Status.AttachmentMetadata, nil
	case a.Status.AttachError != nil:
		return nil, errors.New(a.Status.AttachError.Message)
	}
	return nil, &attach.NotYet{What: "volume attachment is not attached yet"}
}
