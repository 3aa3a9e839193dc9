package attachdetach

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

const (
	byNode   = "attachments by node"
	byVolume = "attachments by volume"
	// soon is when to look again after somebody else has written to the node.
	soon = 100 * time.Millisecond
)

type attacher struct {
	client      *object.Client
	clock       clock.PassiveClock
	events      record.EventRecorder
	pods        *object.Informer[*corev1.Pod]
	nodes       *object.Informer[*corev1.Node]
	claims      *object.Informer[*corev1.PersistentVolumeClaim]
	volumes     *object.Informer[*corev1.PersistentVolume]
	drivers     *object.Informer[*storagev1.CSIDriver]
	attachments *object.Informer[*storagev1.VolumeAttachment]
	queue       *reconcile.Controller

	mu    sync.Mutex
	since map[string]map[string]time.Time // by node and attachment: when nobody wanted it any more
	made  map[string]string               // by volume that one node has alone: the node of an attachment that the cache has not seen yet
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &attacher{
		client: env.Client, clock: env.Clock, events: env.Recorder("attachdetach-controller"), pods: env.Pods(),
		nodes: object.InformerFor(env.Informers, object.Node), claims: object.InformerFor(env.Informers, object.PersistentVolumeClaim),
		volumes: object.InformerFor(env.Informers, object.PersistentVolume), drivers: object.InformerFor(env.Informers, object.CSIDriver),
		attachments: object.InformerFor(env.Informers, object.VolumeAttachment, object.Option{Indexers: cache.Indexers{
			byNode: func(o any) ([]string, error) { return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName}, nil },
			byVolume: func(o any) ([]string, error) {
				if pv := o.(*storagev1.VolumeAttachment).Spec.Source.PersistentVolumeName; pv != nil {
					return []string{*pv}, nil
				}
				return nil, nil
			},
		}}),
		since: map[string]map[string]time.Time{}, made: map[string]string{},
	}
	c.queue = reconcile.New(reconcile.Config{Name: "attachdetach", Kind: "Node", Workers: 4, Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.pods, func(old, new *corev1.Pod) {
		p := new
		if p == nil {
			p = old
		}
		if p.Spec.NodeName != "" && claims(p) && (old == nil || new == nil || Wants(old) != Wants(new)) {
			c.queue.Enqueue(p.Spec.NodeName, c.pods.Trace(p))
		}
	})
	controller.Handle(env, c.nodes, func(old, new *corev1.Node) {
		if new == nil {
			c.queue.Enqueue(old.Name, c.nodes.Trace(old))
		} else if old == nil || changed(old, new) {
			c.queue.Enqueue(new.Name, c.nodes.Trace(new))
		}
	})
	controller.Handle(env, c.claims, func(old, new *corev1.PersistentVolumeClaim) {
		if new != nil && new.Spec.VolumeName != "" && (old == nil || old.Spec.VolumeName == "") {
			c.users(new.Namespace, new.Name, c.claims.Trace(new))
		}
	})
	controller.Handle(env, c.volumes, func(old, new *corev1.PersistentVolume) {
		if new != nil && new.Spec.CSI != nil && new.Spec.ClaimRef != nil && (old == nil || old.Spec.ClaimRef == nil || old.Spec.ClaimRef.UID != new.Spec.ClaimRef.UID) {
			c.users(new.Spec.ClaimRef.Namespace, new.Spec.ClaimRef.Name, c.volumes.Trace(new))
		}
	})
	controller.Handle(env, c.drivers, func(old, new *storagev1.CSIDriver) {
		if Attachable(old) != Attachable(new) {
			for _, n := range c.nodes.List("") {
				c.queue.Enqueue(n.Name, trace.SpanContext{})
			}
		}
	})
	controller.Handle(env, c.attachments, func(old, new *storagev1.VolumeAttachment) {
		a := new
		if a == nil {
			a = old
		}
		c.seen(a)
		c.queue.Enqueue(a.Spec.NodeName, c.attachments.Trace(a))
		if new != nil || a.Spec.Source.PersistentVolumeName == nil {
			return
		}
		if pv, ok := c.volumes.Get("", *a.Spec.Source.PersistentVolumeName); ok && pv.Spec.ClaimRef != nil { // another node may have it now
			c.users(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name, c.attachments.Trace(a))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// claims reports whether a pod has claims.
func claims(p *corev1.Pod) bool {
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

// changed reports whether something of a node has changed that counts here.
func changed(old, new *corev1.Node) bool {
	if ready(old) != ready(new) || lost(old) != lost(new) || old.UID != new.UID || old.Annotations[managed] != new.Annotations[managed] ||
		len(old.Status.VolumesInUse) != len(new.Status.VolumesInUse) || len(old.Status.VolumesAttached) != len(new.Status.VolumesAttached) {
		return true
	}
	for i := range new.Status.VolumesInUse {
		if old.Status.VolumesInUse[i] != new.Status.VolumesInUse[i] {
			return true
		}
	}
	for i := range new.Status.VolumesAttached {
		if old.Status.VolumesAttached[i] != new.Status.VolumesAttached[i] {
			return true
		}
	}
	return false
}

// users looks at the nodes of the pods that have a claim.
func (c *attacher) users(namespace, name string, cause trace.SpanContext) {
	for _, p := range c.pods.List(namespace) {
		if p.Spec.NodeName == "" {
			continue
		}
		for i := range p.Spec.Volumes {
			if claimName(p, &p.Spec.Volumes[i]) == name {
				c.queue.Enqueue(p.Spec.NodeName, cause)
			}
		}
	}
}

func claimName(p *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(p, v)
	}
	return ""
}

// reconcile looks at one node.
func (c *attacher) reconcile(ctx context.Context, name string) (time.Duration, error) {
	s, now := c.situation(name), c.clock.Now()
	c.remember(name, &s, now)
	p := Decide(s, now)
	if p.Attached != nil {
		if s.Node == nil {
			return 0, nil
		}
		node := s.Node.DeepCopy() // at the version that was decided upon: a node that began to use a volume since then has another
		node.Status.VolumesAttached = p.Attached
		if _, err := object.For(c.client, object.Node).UpdateStatus(ctx, node); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				return soon, nil
			}
			return 0, err
		}
	} else if len(p.Detach) > 0 {
		// The status calls none of them attached any more; that the node does not use them is asked as of now.
		node, err := object.For(c.client, object.Node).Get(ctx, "", name)
		if err != nil && !apierrors.IsNotFound(err) {
			return 0, err
		}
		if err == nil && changed(s.Node, node) {
			return soon, nil
		}
	}
	for _, e := range p.Events {
		for _, pod := range e.Pods {
			c.events.Event(pod, e.Kind, e.Reason, e.Message)
		}
	}
	var problems []error
	for _, v := range p.Attach {
		if !c.reserve(name, v) { // two nodes asked at the same time
			p.After = soon
			continue
		}
		err := c.attach(ctx, name, v)
		if err != nil {
			c.release(name, v)
		}
		problems = append(problems, err)
	}
	for _, list := range [][]string{p.Detach, p.Forced} {
		for _, a := range list {
			problems = append(problems, c.detach(ctx, s.There[a]))
		}
	}
	return p.After, errors.Join(problems...)
}

// situation reads the caches.
func (c *attacher) situation(name string) Situation {
	s := Situation{Wanted: map[string]Volume{}, There: map[string]*storagev1.VolumeAttachment{}, Elsewhere: map[string][]*storagev1.VolumeAttachment{}}
	s.Node, _ = c.nodes.Get("", name)
	for _, a := range c.attachments.ByIndex(byNode, name) {
		if strings.HasPrefix(a.Name, "csi-") && len(a.Name) == len("csi-")+64 { // others are somebody else's
			s.There[a.Name] = a
		}
	}
	for _, p := range c.pods.ByIndex(controller.ByNode, name) {
		if !Wants(p) {
			continue
		}
		for i := range p.Spec.Volumes {
			pv := c.volumeOf(p, &p.Spec.Volumes[i])
			if pv == nil || pv.Spec.CSI == nil {
				continue
			}
			if driver, _ := c.drivers.Get("", pv.Spec.CSI.Driver); !Attachable(driver) {
				continue
			}
			key := object.AttachmentName(pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver, name)
			v, again := s.Wanted[key]
			if !again {
				v = Volume{PV: pv.Name, Driver: pv.Spec.CSI.Driver, Handle: pv.Spec.CSI.VolumeHandle, Shared: Shared(pv)}
				for _, a := range c.attachments.ByIndex(byVolume, pv.Name) {
					if a.Spec.NodeName != name {
						s.Elsewhere[key] = append(s.Elsewhere[key], a)
					}
				}
			}
			v.Pods = append(v.Pods, p)
			s.Wanted[key] = v
		}
	}
	return s
}

// volumeOf returns the volume of a pod's claim, nil while there is none.
func (c *attacher) volumeOf(p *corev1.Pod, v *corev1.Volume) *corev1.PersistentVolume {
	name := claimName(p, v)
	if name == "" {
		return nil
	}
	claim, ok := c.claims.Get(p.Namespace, name)
	if !ok || claim.Spec.VolumeName == "" || v.Ephemeral != nil && ephemeral.VolumeIsForPod(p, claim) != nil {
		return nil
	}
	pv, ok := c.volumes.Get("", claim.Spec.VolumeName)
	if !ok || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
		return nil
	}
	return pv
}

// remember keeps since when nobody wants what is attached. It begins anew where another process leads.
func (c *attacher) remember(node string, s *Situation, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := map[string]time.Time{}
	for name := range s.There {
		if _, wanted := s.Wanted[name]; wanted {
			continue
		}
		since[name] = now
		if at, known := c.since[node][name]; known {
			since[name] = at
		}
	}
	s.Since = since
	if len(since) == 0 {
		delete(c.since, node)
		return
	}
	c.since[node] = since
}

// reserve takes a volume for a node, unless another node has it or is about to.
func (c *attacher) reserve(node string, v Volume) bool {
	if v.Shared {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, made := c.made[v.PV]; made && other != node {
		return false
	}
	for _, a := range c.attachments.ByIndex(byVolume, v.PV) {
		if a.Spec.NodeName != node {
			return false
		}
	}
	c.made[v.PV] = node
	return true
}

func (c *attacher) release(node string, v Volume) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made[v.PV] == node {
		delete(c.made, v.PV)
	}
}

// seen notes that the cache has an attachment, or had it.
func (c *attacher) seen(a *storagev1.VolumeAttachment) {
	if pv := a.Spec.Source.PersistentVolumeName; pv != nil {
		c.release(a.Spec.NodeName, Volume{PV: *pv})
	}
}

func (c *attacher) attach(ctx context.Context, node string, v Volume) error {
	_, err := object.For(c.client, object.VolumeAttachment).Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: object.AttachmentName(v.Handle, v.Driver, node)},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: v.Driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.PV}},
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (c *attacher) detach(ctx context.Context, a *storagev1.VolumeAttachment) error {
	err := object.For(c.client, object.VolumeAttachment).Delete(ctx, "", a.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
