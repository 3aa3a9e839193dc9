// Package attach waits until the controller calls a volume attached to the node.
//
// The order matters: the Node's status says first that the volume is in use, which keeps the controller from detaching it, and only what the
// controller then still calls attached is taken for so.
package attach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
)

// Timeout is how long a pod waits in one go until its volume is attached.
const Timeout = 2*time.Minute + 3*time.Second

const (
	lookBase = 50 * time.Millisecond
	lookMax  = time.Second
	// patience is how long it is waited for a controller to say that it attaches volumes of a kind. Nodes that are new hear it within a moment.
	patience = 15 * time.Second
)

// Nodes reads Nodes as of now.
type Nodes interface {
	Node(ctx context.Context, name string) (*corev1.Node, error)
}

// Config of a Waiter.
type Config struct {
	NodeName string
	Nodes    Nodes
	// Reported returns the volumes that the Node's status says to be in use, as the API last answered; Changed says that there are others.
	Reported func() []corev1.UniqueVolumeName
	Changed  func()
	Clock    clock.Clock
}

// Waiter waits for attachments. It starts nothing.
type Waiter struct{ cfg Config }

// New returns a Waiter.
func New(cfg Config) *Waiter { return &Waiter{cfg} }

// Changed has the Node's status say anew what is in use.
func (w *Waiter) Changed() { w.cfg.Changed() }

// NotYet says what an attachment waits for.
type NotYet struct{ What string }

func (e *NotYet) Error() string { return e.What }

// Wait waits until a volume is attached. What more returns counts instead once the Node's status says that the volume is in use: it is told why the
// volume is not attached yet, or nil. What is not a NotYet ends the waiting.
func (w *Waiter) Wait(ctx context.Context, name corev1.UniqueVolumeName, more func(ctx context.Context, yet error) error) error {
	return w.wait(ctx, func(ctx context.Context) error {
		node, err := w.look(ctx, name)
		if node == nil {
			return err
		}
		return more(ctx, err)
	})
}

// WaitNoted waits until a volume is attached that no object stands for. It reports false, and that soon, where nobody attaches volumes of that kind: the
// controller is of an older release or has never been switched on, or the node does not leave attaching to it.
func (w *Waiter) WaitNoted(ctx context.Context, plugin string, name corev1.UniqueVolumeName) (attached bool, _ error) {
	began := w.cfg.Clock.Now()
	err := w.wait(ctx, func(ctx context.Context) error {
		node, err := w.look(ctx, name)
		switch {
		case err == nil:
			attached = true
		case node == nil: // it is not known yet, or cannot be asked
		case node.Annotations[object.ManagedAttachAnnotation] != "true",
			!slices.Contains(strings.Split(node.Annotations[object.AttachesAnnotation], ","), plugin) && w.cfg.Clock.Since(began) >= patience:
			return nil
		}
		return err
	})
	return attached, err
}

func (w *Waiter) wait(ctx context.Context, look func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	for gap := lookBase; ; gap = min(2*gap, lookMax) {
		err := look(ctx)
		if _, waiting := errors.AsType[*NotYet](err); !waiting {
			return err
		}
		timer := w.cfg.Clock.NewTimer(gap)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", err, ctx.Err())
		case <-timer.C():
		}
	}
}

// look looks once, and returns the Node where it has come to that.
func (w *Waiter) look(ctx context.Context, name corev1.UniqueVolumeName) (*corev1.Node, error) {
	if !slices.Contains(w.cfg.Reported(), name) {
		w.cfg.Changed()
		return nil, &NotYet{"the node's status does not say yet that the volume is in use"}
	}
	node, err := w.cfg.Nodes.Node(ctx, w.cfg.NodeName)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == name }) {
		return node, &NotYet{"volume is not attached to the node yet"}
	}
	return node, nil
}
