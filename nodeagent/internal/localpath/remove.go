// Package localpath removes the folders of volumes that lie on this node, when the volumes are deleted. The folders are made with their first use, by
// package volume.
package localpath

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	storage "k8s.io/component-helpers/storage/volume"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/kit/task"
)

const (
	protection = "kubernetes.io/pv-protection"
	// retry is how long after a pod was found with the volume it is looked at again.
	retry = 2 * time.Second
)

// Config of a Remover.
type Config struct {
	Client   *object.Client
	NodeName string
	Events   record.EventRecorder
	// Users returns the pods of the node that have a volume.
	Users func(volume string) []types.UID
	// Below returns the mount points at or below a path.
	Below func(path string) ([]string, error)
}

// Remover follows the node's own volumes.
type Remover struct {
	cfg       Config
	informers *object.Informers
	volumes   *object.Informer[*corev1.PersistentVolume]
	queue     *reconcile.Controller
}

// New returns a Remover; it starts nothing. It has informers of its own: an agent whose API server does not show it its volumes still runs pods.
func New(cfg Config) *Remover {
	r := &Remover{cfg: cfg, informers: object.NewInformers(cfg.Client)}
	if len(cfg.NodeName) > 63 { // no label has it
		return r
	}
	r.volumes = object.InformerFor(r.informers, object.PersistentVolume, object.Option{LabelSelector: object.LocalPathNodeLabel + "=" + cfg.NodeName})
	r.queue = reconcile.New(reconcile.Config{Name: "localpath", Kind: "PersistentVolume", Reconcile: r.reconcile})
	return r
}

// Run removes folders until ctx ends.
func (r *Remover) Run(ctx context.Context) error {
	if r.queue == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	r.volumes.AddHandler(func(_, v *corev1.PersistentVolume) {
		if v != nil && Removable(v) {
			r.queue.Enqueue(v.Name, r.volumes.Trace(v))
		}
	})
	return task.Run(ctx, r.informers.Run, r.queue.Run)
}

// Removable reports whether a volume waits for this node alone: it is deleted, and no claim has it.
func Removable(v *corev1.PersistentVolume) bool {
	return v.DeletionTimestamp != nil && v.Annotations[storage.AnnDynamicallyProvisioned] == object.LocalPathProvisioner && v.Status.Phase != corev1.VolumeBound &&
		slices.Contains(v.Finalizers, object.LocalPathFinalizer) && !slices.Contains(v.Finalizers, protection)
}

// Folder returns the folder that goes with a volume, "" where it stays, as its policy says. A folder that is not named after the volume and its
// claim is not one that the provisioner has made up.
func Folder(v *corev1.PersistentVolume) (string, error) {
	if v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return "", nil
	}
	if v.Spec.Local == nil || v.Spec.ClaimRef == nil || v.Name != "pvc-"+string(v.Spec.ClaimRef.UID) {
		return "", fmt.Errorf("volume %s was not made by %s", v.Name, object.LocalPathProvisioner)
	}
	path := v.Spec.Local.Path
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || filepath.Base(path) != v.Name {
		return "", fmt.Errorf("%q is not the folder of volume %s", path, v.Name)
	}
	return path, nil
}

// reconcile removes the folder, and then lets the volume go. Whatever ends in between, it is done again.
func (r *Remover) reconcile(ctx context.Context, name string) (time.Duration, error) {
	v, ok := r.volumes.GetKey(name)
	if !ok || !Removable(v) {
		return 0, nil
	}
	folder, err := Folder(v)
	if err == nil && folder != "" {
		if users := r.cfg.Users(v.Name); len(users) > 0 { // pods that were deleted by force still end
			return retry, nil
		}
		err = r.remove(folder)
	}
	if err != nil {
		r.cfg.Events.Event(v, corev1.EventTypeWarning, "VolumeFailedDelete", err.Error())
		return 0, err
	}
	v = v.DeepCopy()
	v.Finalizers = slices.DeleteFunc(v.Finalizers, func(f string) bool { return f == object.LocalPathFinalizer })
	_, err = object.For(r.cfg.Client, object.PersistentVolume).Update(ctx, v)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // the next event sets it right
		return 0, nil
	}
	if err == nil {
		slog.InfoContext(ctx, "removed a volume", "kind", "PersistentVolume", "name", name, "folder", folder)
	}
	return 0, err
}

func (r *Remover) remove(folder string) error {
	points, err := r.cfg.Below(folder)
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return errors.New(points[0] + " is mounted")
	}
	return os.RemoveAll(folder)
}
