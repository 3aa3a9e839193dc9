package csi

import (
	"context"
	"errors"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/attach"
)

// attached waits until a volume is attached to the node, and returns what the driver said of it.
func (v *Volumes) attached(ctx context.Context, w *Want) (said map[string]string, err error) {
	err = v.cfg.Waiter.Wait(ctx, object.AttachableName(w.driver(), w.handle()), func(ctx context.Context) error {
		a, err := v.cfg.Objects.Attachment(ctx, object.AttachmentName(w.handle(), w.driver(), v.cfg.NodeName))
		switch {
		case apierrors.IsNotFound(err):
			return &attach.NotYet{What: "volume attachment is not there yet"}
		case err != nil:
			return err
		}
		said, err = judge(a)
		return err
	})
	if err != nil {
		return nil, err
	}
	return said, nil
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
