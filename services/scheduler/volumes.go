package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/queue"
	"howdah.dev/services/scheduler/internal/storage"
)

// volumesPeriod is how often those that wait are looked at where nothing happens.
const volumesPeriod = 10 * time.Minute

// volumes has the pods that have a node and wait there for their volumes, or for their devices to be ready. Those that wait are no more than the pods of the queue, to which each of
// them belongs.
type volumes struct {
	s       *Server
	changed chan struct{} // holds a token when something may have come true for one that waits

	mu      sync.Mutex
	waiting map[types.UID]awaited
}

// awaited is a decision, and since when and until when its volumes or devices are waited for.
type awaited struct {
	decision
	since, until time.Time
}

func newVolumes(s *Server) *volumes {
	return &volumes{s: s, changed: make(chan struct{}, 1), waiting: map[types.UID]awaited{}}
}

// poke has all looked at that wait.
func (v *volumes) poke() {
	if v == nil { // the scheduler only decides
		return
	}
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// wait lets a decision wait whose volumes are written.
func (v *volumes) wait(d decision) {
	v.mu.Lock()
	defer v.mu.Unlock()
	profile := v.s.profiles.of(d.item.Pod)
	timeout := profile.DeviceTimeout
	if d.mustBind() {
		timeout = profile.VolumeTimeout
	}
	now := v.s.cfg.Clock.Now()
	v.waiting[d.item.Pod.UID] = awaited{d, now, now.Add(timeout)}
	v.poke()
}

// node is where a pod waits for its volumes, "" where it does not.
func (v *volumes) node(pod types.UID) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.waiting[pod].node
}

// what says for what a pod waits on its node, "" where it does not wait.
func (v *volumes) what(pod types.UID) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	a, ok := v.waiting[pod]
	switch {
	case !ok:
		return ""
	case a.mustBind():
		return "Waiting for the volumes to be bound, on node " + a.node
	}
	return "Waiting for the devices to be ready, on node " + a.node
}

// run hands on what waits no longer, until ctx ends.
func (v *volumes) run(ctx context.Context, handOn func(context.Context, []decision) error) error {
	for {
		ready, next := v.ready()
		if err := handOn(ctx, ready); err != nil {
			return err
		}
		timer := v.s.cfg.Clock.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-v.changed:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// ready takes out what waits no longer: what is bound, what has failed, and what nobody wants any more. It also returns how long to wait for
// the next one that waited too long.
func (v *volumes) ready() ([]decision, time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, next := v.s.cfg.Clock.Now(), volumesPeriod
	if len(v.waiting) == 0 {
		return nil, next
	}
	view := v.s.cache.Storage.View()
	var ready []decision
	for uid, a := range v.waiting {
		done, err := v.s.bindable(a.decision, view)
		if err == nil && !done && !a.until.After(now) {
			err = context.DeadlineExceeded
		}
		if (done || err != nil) && !a.mustBind() {
			v.s.devicesReady(a.item.Pod, v.s.cache.Devices.View(), now.Sub(a.since), err)
		}
		switch {
		case errors.Is(err, errPodGone):
			v.s.attempted(&a.decision, err)
			v.s.giveUp(&a.decision)
			if a.volumesSpan != nil {
				obs.End(a.volumesSpan, err)
			}
			a.span.End()
		case err != nil && !a.mustBind():
			v.s.failConditions(&a.decision, err)
			ready = append(ready, a.decision)
		case done && !a.mustBind():
			ready = append(ready, a.decision)
		case err != nil:
			v.s.failVolumes(&a.decision, fmt.Errorf("binding volumes: %w", err))
			ready = append(ready, a.decision)
		case done:
			obs.End(a.volumesSpan, nil)
			a.volumesDone = true
			ready = append(ready, a.decision)
		default:
			next = min(next, a.until.Sub(now))
			continue
		}
		delete(v.waiting, uid)
	}
	return ready, next
}

// drain takes out all that wait.
func (v *volumes) drain() []decision {
	v.mu.Lock()
	defer v.mu.Unlock()
	decisions := make([]decision, 0, len(v.waiting))
	for _, a := range v.waiting {
		decisions = append(decisions, a.decision)
	}
	clear(v.waiting)
	return decisions
}

// errPodGone says that a pod is gone, or is not to be placed any more.
var errPodGone = errors.New("pod does not exist any more")

// bindable reports whether the volumes of a decision are bound, or after that its devices are ready. An error says that they will not be.
func (s *Server) bindable(d decision, view storage.View) (bool, error) {
	pod := d.item.Pod
	if now, ok := s.pods.Get(pod.Namespace, pod.Name); !ok || now.UID != pod.UID || !s.waits(now) {
		return false, errPodGone
	}
	node, _ := s.nodes.Get("", d.node)
	if d.mustBind() {
		return view.Progress(d.volumes, node)
	}
	if node == nil {
		return false, fmt.Errorf("failed to get node %q: node %q not found", d.node, d.node)
	}
	return s.cache.Devices.View().Ready(pod, s.cfg.Clock.Now(), s.profiles.of(pod).DeviceTimeout)
}

// devicesReady measures how long a pod waited for its devices, where they are such as have to be made ready.
func (s *Server) devicesReady(pod *corev1.Pod, view device.View, waited time.Duration, err error) {
	s.profiles.of(pod).metrics.devicesReady(view.Conditional(pod), waited, err)
}

// failVolumes makes a decision one for no node: its volumes cannot be bound. The pod is tried again after its back-off, and others may have
// its room.
func (s *Server) failVolumes(d *decision, err error) {
	s.metrics.volumes.WithLabelValues("bind").Inc()
	obs.End(d.volumesSpan, err)
	s.giveUp(d)
	s.nominate(d.item.Pod, "")
	d.node, d.volumes, d.room = "", nil, &room{}
	d.fails(fmt.Sprintf("running PreBind plugin %q: %s", "VolumeBinding", err))
}

// giveUp takes back what a decision has assumed.
func (s *Server) giveUp(d *decision) {
	s.cache.Forget(d.item.Pod.UID)
	s.forgetVolumes(d)
	s.cache.Devices.Forget(d.devices)
	d.devices = nil
	s.queue.Wake(queue.AssignedPodDelete)
}

// forgetVolumes takes back what a decision has assumed of volumes.
func (s *Server) forgetVolumes(d *decision) {
	if d.volumes != nil {
		s.cache.Storage.Forget(d.volumes)
		d.volumes = nil
	}
}

// bindVolumes writes what binds the volumes of decisions, which then wait, and returns the other decisions: those that have nothing to bind or
// wait no longer, and those that have failed by that.
func (b *binder) bindVolumes(ctx context.Context, decisions []decision) []decision {
	if !slices.ContainsFunc(decisions, decision.mustBind) {
		return decisions
	}
	var rest, own []decision
	var items []object.Item
	var wrote []func(data []byte) error // by item
	var of []int                        // the decision of an item, among own
	for _, d := range decisions {
		if !d.mustBind() {
			rest = append(rest, d)
			continue
		}
		var spanCtx context.Context
		spanCtx, d.volumesSpan = otel.Tracer("howdah.dev/services/scheduler").Start(d.ctx, "scheduler.volumes")
		for _, w := range b.volumeWrites(d) {
			items, wrote, of = append(items, w.item.Traced(spanCtx)), append(wrote, w.written), append(of, len(own))
		}
		own = append(own, d)
	}
	errs := make(map[int]error, len(own))
	if len(items) > 0 {
		results, err := b.s.cfg.Objects.Batch(trace.ContextWithSpan(ctx, own[0].volumesSpan), items, false)
		for i := range items {
			outcome := err
			if i < len(results) {
				outcome = results[i].Err
			}
			if outcome == nil && wrote[i] != nil {
				outcome = wrote[i](results[i].Object)
			}
			if wrote[i] != nil { // the rest is for the eyes of others
				errs[of[i]] = errors.Join(errs[of[i]], outcome)
			}
		}
	}
	for i, d := range own {
		if err := errs[i]; err != nil {
			b.s.failVolumes(&d, err)
			rest = append(rest, d)
			continue
		}
		b.s.volumes.wait(d)
	}
	return rest
}

// volumeWrite is one write of those that bind volumes, and what to do with what was written; nil where the outcome does not matter.
type volumeWrite struct {
	item    object.Item
	written func(data []byte) error
}

// volumeWrites are the writes that a choice needs: a reference to its claim for each volume, the chosen node for each claim that is to be
// provisioned, and for the pod the node that is kept for it. Each refuses to change what has changed meanwhile.
func (b *binder) volumeWrites(d decision) []volumeWrite {
	var writes []volumeWrite
	for _, c := range d.volumes.Bindings {
		if c.Volume == c.From {
			continue
		}
		patch := unchanged(c.From, map[string]any{"claimRef": c.Volume.Spec.ClaimRef}, changes(c.From.Annotations, c.Volume.Annotations))
		writes = append(writes, volumeWrite{
			b.volumes.PatchItem("", c.Volume.Name, types.MergePatchType, patch, ""),
			func(data []byte) error {
				written, err := object.Decode(object.PersistentVolume, data)
				if err == nil {
					b.s.cache.Storage.WroteVolume(c.Volume, written)
				}
				return err
			},
		})
	}
	for _, p := range d.volumes.Provisions {
		if p.Claim == p.From {
			continue
		}
		patch := unchanged(p.From, nil, map[string]string{volume.AnnSelectedNode: d.node})
		writes = append(writes, volumeWrite{
			b.claims.PatchItem(p.Claim.Namespace, p.Claim.Name, types.MergePatchType, patch, ""),
			func(data []byte) error {
				written, err := object.Decode(object.PersistentVolumeClaim, data)
				if err == nil {
					b.s.cache.Storage.WroteClaim(p.Claim, written)
				}
				return err
			},
		})
	}
	pod := d.item.Pod
	if pod.Status.NominatedNodeName != d.node {
		patch := statusPatch(pod, map[string]any{"nominatedNodeName": d.node})
		writes = append(writes, volumeWrite{item: b.pods.PatchItem(pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, "status")})
	}
	return writes
}

// unchanged is a patch that is refused where the object is not this very one in this very version.
func unchanged(from object.Object, spec map[string]any, annotations map[string]string) []byte {
	metadata := map[string]any{"uid": from.GetUID(), "resourceVersion": from.GetResourceVersion()}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	content := map[string]any{"metadata": metadata}
	if spec != nil {
		content["spec"] = spec
	}
	patch, err := json.Marshal(content)
	if err != nil { // plain data always encodes
		return nil
	}
	return patch
}

// changes returns what is in now and was not, or was otherwise.
func changes(was, now map[string]string) map[string]string {
	changed := maps.Clone(now)
	maps.DeleteFunc(changed, func(key, value string) bool { old, ok := was[key]; return ok && old == value })
	return changed
}
