package attachdetach

import (
	"context"
	"errors"
	"slices"
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
	byNote   = "nodes by noted volume"
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
	metrics     *Metrics

	mu       sync.Mutex
	since    map[string]map[string]time.Time // by node and attachment: when nobody wanted it any more
	standing map[string]standing             // by node: what its pods were told
	made     map[string]string               // by volume that one node has alone: the node of an attachment that the cache has not seen yet
	noted    ledger
}

// New returns the controller. metrics may be nil.
func New(env *controller.Env, metrics *Metrics) controller.Unit {
	c := &attacher{
		client: env.Client, clock: env.Clock, events: env.Recorder("attachdetach-controller"), pods: env.Pods(),
		nodes: object.InformerFor(env.Informers, object.Node, object.Option{Indexers: cache.Indexers{byNote: func(o any) ([]string, error) {
			var names []string
			for _, name := range notes(o.(*corev1.Node)) {
				names = append(names, string(name))
			}
			return names, nil
		}}}),
		claims:  object.InformerFor(env.Informers, object.PersistentVolumeClaim),
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
		since: map[string]map[string]time.Time{}, standing: map[string]standing{}, made: map[string]string{}, noted: newLedger(),
		metrics: metrics,
	}
	c.queue = reconcile.New(reconcile.Config{Name: "attachdetach", Kind: "Node", Workers: 4, Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.pods, func(old, new *corev1.Pod) {
		p := new
		if p == nil {
			p = old
		}
		if p.Spec.NodeName != "" && attachable(p) && (old == nil || new == nil || Wants(old) != Wants(new)) {
			c.queue.Enqueue(p.Spec.NodeName, c.pods.Trace(p))
		}
	})
	controller.Handle(env, c.nodes, func(old, new *corev1.Node) {
		c.heard(old, new)
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
		if new == nil {
			return
		}
		if _, ours := ofCluster(new); ours && new.Spec.ClaimRef != nil && (old == nil || old.Spec.ClaimRef == nil || old.Spec.ClaimRef.UID != new.Spec.ClaimRef.UID) {
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
		c.metrics.saw(old, new, c.clock.Now())
		c.queue.Enqueue(a.Spec.NodeName, c.attachments.Trace(a))
		if new != nil || a.Spec.Source.PersistentVolumeName == nil {
			return
		}
		if pv, ok := c.volumes.Get("", *a.Spec.Source.PersistentVolumeName); ok && pv.Spec.ClaimRef != nil { // another node may have it now
			c.users(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name, c.attachments.Trace(a))
		}
	})
	counts := controller.Leading(func(leads bool) {
		if leads {
			metrics.follow(c)
		} else {
			metrics.follow(nil)
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}, Loops: []func(context.Context) error{counts}}
}

// attachable reports whether a pod has volumes that may have to be attached.
func attachable(p *corev1.Pod) bool {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if _, noted := ofPod(v); noted || v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

// changed reports whether something of a node has changed that counts here.
func changed(old, new *corev1.Node) bool {
	if ready(old) != ready(new) || lost(old) != lost(new) || old.UID != new.UID || old.Annotations[managed] != new.Annotations[managed] ||
		old.Annotations[object.AttachesAnnotation] != new.Annotations[object.AttachesAnnotation] ||
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
	if err := errors.Join(c.settle(ctx, name, &s), c.abandon(ctx, name, &s)); err != nil {
		return 0, err
	}
	c.remember(name, &s, now)
	p := Decide(s, now)
	c.note(name, &s, &p)
	if p.Attached != nil || p.Announce {
		if s.Node == nil {
			return 0, nil
		}
		if err := c.tell(ctx, s.Node, &p); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return soon, nil
		} else if err != nil {
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
	for _, e := range c.news(name, p.Events) {
		for _, pod := range e.Pods {
			c.events.Event(pod, e.Kind, e.Reason, e.Message)
		}
	}
	var problems []error
	for _, v := range p.Attach {
		if v.Noted {
			continue
		}
		if !c.reserve(name, v) { // two nodes asked at the same time
			p.After = soon
			continue
		}
		err := c.attach(ctx, name, v)
		if object.Refused(err) { // else it may be attached for all that
			c.release(name, v)
		}
		problems = append(problems, err)
	}
	for _, a := range p.Detach {
		problems = append(problems, c.detach(ctx, name, a, s.There[a].Object))
	}
	for _, a := range p.Forced {
		err := c.detach(ctx, name, a, s.There[a].Object)
		if err == nil {
			c.metrics.detachedByForce(s.Node)
		}
		problems = append(problems, err)
	}
	return p.After, errors.Join(problems...)
}

// tell writes to the node, at the version that was decided upon: one that began to use a volume since then has another.
func (c *attacher) tell(ctx context.Context, node *corev1.Node, p *Plan) error {
	node = node.DeepCopy()
	if p.Attached != nil {
		node.Status.VolumesAttached = p.Attached
	}
	if p.Announce {
		node.Annotations[object.AttachesAnnotation] = announcement()
	}
	_, err := object.For(c.client, object.Node).UpdateStatus(ctx, node)
	return err
}

// situation reads the caches.
func (c *attacher) situation(name string) Situation {
	s := Situation{Wanted: map[string]Volume{}, There: map[string]Attachment{}, Elsewhere: map[string][]Attachment{}, Users: map[string][]*corev1.Pod{}}
	s.Node, _ = c.nodes.Get("", name)
	for _, a := range c.attachments.ByIndex(byNode, name) {
		if ours(a) {
			s.There[a.Name] = Of(a)
		}
	}
	for _, unique := range c.notes(name, s.Node) {
		s.There[string(unique)] = Attachment{Node: name, Attached: true}
	}
	for _, p := range c.pods.ByIndex(controller.ByNode, name) {
		if !Wants(p) {
			continue
		}
		for _, v := range c.volumesOf(p) {
			key := v.key(name)
			if before, again := s.Wanted[key]; again {
				before.Shared = before.Shared && v.Shared
				v = before
			}
			v.Pods = append(v.Pods, p)
			s.Wanted[key] = v
		}
	}
	for key, v := range s.Wanted {
		if _, there := s.There[key]; there || v.Shared {
			continue
		}
		if v.Noted {
			c.wait(name, v.Name) // before it is looked who has it: whoever loses it after that finds who waits
		}
		if s.Elsewhere[key] = c.elsewhere(name, v); len(s.Elsewhere[key]) > 0 {
			s.Users[key] = c.usersOf(v, s.Elsewhere[key])
		}
	}
	return s
}

// ours reports whether an attachment is one that is made here: others are somebody else's.
func ours(a *storagev1.VolumeAttachment) bool {
	return strings.HasPrefix(a.Name, "csi-") && len(a.Name) == len("csi-")+64
}

// elsewhere are the attachments of a volume to other nodes.
func (c *attacher) elsewhere(node string, v Volume) []Attachment {
	if v.Noted {
		return c.notedElsewhere(node, v.Name)
	}
	var out []Attachment
	for _, a := range c.attachments.ByIndex(byVolume, v.PV) {
		if a.Spec.NodeName != node {
			out = append(out, Of(a))
		}
	}
	return out
}

// usersOf are the pods that want a volume where it is.
func (c *attacher) usersOf(v Volume, where []Attachment) []*corev1.Pod {
	var users []*corev1.Pod
	for _, a := range where {
		for _, p := range c.pods.ByIndex(controller.ByNode, a.Node) {
			if Wants(p) && slices.ContainsFunc(c.volumesOf(p), func(o Volume) bool { return o.Name == v.Name }) {
				users = append(users, p)
			}
		}
	}
	return users
}

// volumesOf are the volumes of a pod that are attached to nodes, as far as it is known what its claims stand for.
func (c *attacher) volumesOf(p *corev1.Pod) []Volume {
	var out []Volume
	for i := range p.Spec.Volumes {
		v, ok := ofPod(&p.Spec.Volumes[i])
		if !ok {
			pv := c.volumeOf(p, &p.Spec.Volumes[i])
			if pv == nil {
				continue
			}
			if v, ok = ofCluster(pv); !ok {
				continue
			}
		}
		if v.Driver != "" {
			if driver, _ := c.drivers.Get("", v.Driver); !Attachable(driver) {
				continue
			}
		}
		out = append(out, v)
	}
	return out
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
	if other, made := c.made[v.lock()]; made && other != node {
		return false
	}
	if len(c.elsewhere(node, v)) > 0 {
		return false
	}
	c.made[v.lock()] = node
	return true
}

// lock is by what a volume is reserved.
func (v Volume) lock() string {
	if v.Noted {
		return string(v.Name)
	}
	return v.PV
}

func (c *attacher) release(node string, v Volume) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made[v.lock()] == node {
		delete(c.made, v.lock())
	}
}

// abandon ends the reservations of a node for volumes that it does not want any more, or cannot get, and of which it has no attachment: nobody had answered
// whether it was made. One that the cache is about to show ends its reservation itself.
func (c *attacher) abandon(ctx context.Context, node string, s *Situation) error {
	open := map[string]bool{}
	c.mu.Lock()
	for lock, by := range c.made {
		if by == node && !isNote(corev1.UniqueVolumeName(lock)) && (s.Node == nil || !s.wants(lock)) {
			open[lock] = true
		}
	}
	c.mu.Unlock()
	if len(open) == 0 {
		return nil
	}
	there, _, err := object.For(c.client, object.VolumeAttachment).List(ctx, "", metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, a := range there {
		if pv := a.Spec.Source.PersistentVolumeName; pv != nil && a.Spec.NodeName == node {
			delete(open, *pv)
		}
	}
	for lock := range open {
		c.release(node, Volume{PV: lock})
	}
	return nil
}

// wants says whether pods of the node want a PersistentVolume.
func (s *Situation) wants(pv string) bool {
	for _, v := range s.Wanted {
		if v.PV == pv && !v.Noted {
			return true
		}
	}
	return false
}

// seen notes that the cache has an attachment, or had it.
func (c *attacher) seen(a *storagev1.VolumeAttachment) {
	if pv := a.Spec.Source.PersistentVolumeName; pv != nil {
		c.release(a.Spec.NodeName, Volume{PV: *pv})
	}
}

func (c *attacher) attach(ctx context.Context, node string, v Volume) error {
	name := object.AttachmentName(v.Handle, v.Driver, node)
	first := c.metrics.begins(name, attaching, c.clock.Now())
	_, err := object.For(c.client, object.VolumeAttachment).Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: v.Driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.PV}},
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil && first {
		c.metrics.dropped(name, attaching)
	}
	return err
}

// detach deletes an attachment of a node, or forgets it where there is no object of it: the status has been all that there was.
func (c *attacher) detach(ctx context.Context, node, name string, a *storagev1.VolumeAttachment) error {
	if a == nil {
		c.forget(node, corev1.UniqueVolumeName(name))
		return nil
	}
	first := c.metrics.begins(name, detaching, c.clock.Now())
	err := object.For(c.client, object.VolumeAttachment).Delete(ctx, "", name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}})
	if err != nil && first { // what was asked for before may be gone already, of which the cache does not tell yet
		c.metrics.dropped(name, detaching)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
