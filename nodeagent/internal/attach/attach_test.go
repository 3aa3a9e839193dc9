package attach

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
)

const (
	plugin = "kubernetes.io/x"
	name   = corev1.UniqueVolumeName(plugin + "/1")
)

// world is a node and its API; each look is a moment of its story.
type world struct {
	looks    int
	reported []corev1.UniqueVolumeName
	node     func(look int) (*corev1.Node, error)
}

func (w *world) Node(context.Context, string) (*corev1.Node, error) {
	w.looks++
	return w.node(w.looks)
}

func (w *world) changed() { w.reported = []corev1.UniqueVolumeName{name} }

// waiter waits on a clock that goes on by itself until it is stopped.
func (w *world) waiter() (_ *Waiter, stop func()) {
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if clk.HasWaiters() {
				clk.Step(lookMax)
			}
			runtime.Gosched()
		}
	}()
	return New(Config{NodeName: "n", Nodes: w, Reported: func() []corev1.UniqueVolumeName { return w.reported }, Changed: w.changed, Clock: clk}), func() { cancel(); <-done }
}

func nodeOf(managed bool, attaches string, attached ...corev1.UniqueVolumeName) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
	if managed {
		n.Annotations[object.ManagedAttachAnnotation] = "true"
	}
	if attaches != "" {
		n.Annotations[object.AttachesAnnotation] = attaches
	}
	for _, a := range attached {
		n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: a})
	}
	return n
}

// TestWaitNoted waits for as long as somebody can be expected to attach the volume.
func TestWaitNoted(t *testing.T) {
	t.Parallel()
	always := func(n *corev1.Node) func(int) (*corev1.Node, error) {
		return func(int) (*corev1.Node, error) { return n, nil }
	}
	for what, c := range map[string]struct {
		node     func(look int) (*corev1.Node, error)
		attached bool
		looks    int // at least; 0 is one
		err      string
	}{
		"attached":                   {node: always(nodeOf(true, plugin, "other", name)), attached: true},
		"attached, not told by whom": {node: always(nodeOf(true, "", name)), attached: true},
		"later": {node: func(look int) (*corev1.Node, error) {
			if look < 60 { // long past patience: another node has it
				return nodeOf(true, "kubernetes.io/y,"+plugin), nil
			}
			return nodeOf(true, plugin, name), nil
		}, attached: true, looks: 60},
		"a node that is new": {node: func(look int) (*corev1.Node, error) {
			switch {
			case look < 5:
				return nodeOf(true, ""), nil
			case look < 60:
				return nodeOf(true, plugin), nil
			}
			return nodeOf(true, plugin, name), nil
		}, attached: true, looks: 60},
		"an older controller":     {node: always(nodeOf(true, "")), looks: 15},
		"one for other volumes":   {node: always(nodeOf(true, "kubernetes.io/xy")), looks: 15},
		"a node of nobody's":      {node: always(nodeOf(false, ""))},
		"the API does not answer": {node: func(int) (*corev1.Node, error) { return nil, errors.New("down") }, err: "down"},
	} {
		w := &world{node: c.node}
		waiter, stop := w.waiter()
		attached, err := waiter.WaitNoted(t.Context(), plugin, name)
		stop()
		if attached != c.attached || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", what, attached, err)
		}
		if w.looks < max(c.looks, 1) || c.looks == 0 && w.looks > 1 {
			t.Errorf("%s: looked %d times, want %d", what, w.looks, c.looks)
		}
		if len(w.reported) != 1 {
			t.Errorf("%s: the node was not told to say that the volume is in use", what)
		}
	}
}

// TestWaitEnds says what was waited for when the pod goes.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := &world{node: func(look int) (*corev1.Node, error) {
		if look == 3 {
			cancel()
		}
		return nodeOf(true, plugin), nil
	}}
	waiter, stop := w.waiter()
	defer stop()
	if attached, err := waiter.WaitNoted(ctx, plugin, name); attached || !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "volume is not attached to the node yet") {
		t.Errorf("%v, %v", attached, err)
	}
}

// TestWaitAsksMore tells who is asked whether the controller calls the volume attached, and goes by what it says.
func TestWaitAsksMore(t *testing.T) {
	t.Parallel()
	w := &world{node: func(look int) (*corev1.Node, error) {
		if look < 3 {
			return nodeOf(true, ""), nil
		}
		return nodeOf(true, "", name), nil
	}}
	waiter, stop := w.waiter()
	defer stop()
	var heard []string
	err := waiter.Wait(t.Context(), name, func(_ context.Context, yet error) error {
		heard = append(heard, fmt.Sprint(yet))
		if yet != nil || len(heard) < 4 {
			return &NotYet{"not there"}
		}
		return errors.New("broken")
	})
	const not = "volume is not attached to the node yet"
	if want := []string{not, not, "<nil>", "<nil>"}; err == nil || err.Error() != "broken" || !slices.Equal(heard, want) || w.looks != 4 {
		t.Errorf("%v after %d looks, heard %q, want %q", err, w.looks, heard, want)
	}
}
