package mirror

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/nodeagent/internal/pod"
)

// again is how often a mirror is looked at though nothing was heard of it.
const again = time.Minute

// Pods are the node's static pods.
type Pods interface {
	At(name types.NamespacedName) (p *corev1.Pod, ending bool)
	Names() []types.NamespacedName
	Told(p *corev1.Pod, status corev1.PodStatus)
	Trace(p *corev1.Pod) trace.SpanContext
	Known() <-chan struct{}
}

// API is the cache of the pods that are bound to the node.
type API interface {
	List(namespace string) []*corev1.Pod
	Get(namespace, name string) (*corev1.Pod, bool)
}

// Writer writes statuses.
type Writer interface {
	Set(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus)
	Delete(ctx context.Context, pod *corev1.Pod)
	Forget(uid types.UID)
}

// Config of a Keeper.
type Config struct {
	Client *object.Client
	API    API
	Pods   Pods
	Writer Writer
	// Node is the node as it is in the API, nil where it is not known yet.
	Node       func() *corev1.Node
	Clock      clock.WithTicker
	Registerer prometheus.Registerer
}

// Keeper keeps the mirrors, and writes what workers say of pods: of static ones to their mirrors.
type Keeper struct {
	cfg    Config
	queue  *reconcile.Controller
	writes *prometheus.CounterVec
}

// New returns a Keeper; it keeps no mirror before Run.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, writes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "howdah_nodeagent_mirror_writes_total", Help: "Mirrors of static pods that were made and deleted, by outcome.",
	}, []string{"operation", "outcome"})}
	mirrors := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubelet_mirror_pods", Help: "Mirrors of static pods in the API.",
	}, func() float64 { return float64(len(k.mirrors())) })
	cfg.Registerer.MustRegister(k.writes, mirrors)
	k.queue = reconcile.New(reconcile.Config{Name: "mirror", Kind: "Pod", Reconcile: k.reconcile, Clock: cfg.Clock})
	return k
}

func (k *Keeper) mirrors() []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range k.cfg.API.List("") {
		if _, ok := pod.Mirror(p); ok {
			out = append(out, p)
		}
	}
	return out
}

// Run keeps the mirrors until ctx ends. The cache has its full picture; before the manifests are known no mirror is one too many.
func (k *Keeper) Run(ctx context.Context) error {
	select {
	case <-k.cfg.Pods.Known():
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, m := range k.mirrors() {
		k.queue.Enqueue(object.KeyOf(m), trace.SpanContext{})
	}
	for _, name := range k.cfg.Pods.Names() {
		k.Changed(name)
	}
	return k.queue.Run(ctx)
}

// Changed says that a static pod, or the mirror of one, is another.
func (k *Keeper) Changed(name types.NamespacedName) {
	k.queue.Enqueue(object.Key(name.Namespace, name.Name), trace.SpanContext{})
}

// Bound takes in a change of the API.
func (k *Keeper) Bound(old, now *corev1.Pod) {
	for _, p := range []*corev1.Pod{old, now} {
		if p == nil {
			continue
		}
		if _, ok := pod.Mirror(p); !ok {
			return
		}
		if p == old && (now == nil || now.UID != old.UID) {
			k.cfg.Writer.Forget(old.UID)
		}
	}
	for _, p := range []*corev1.Pod{old, now} {
		if p != nil {
			k.Changed(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
			return
		}
	}
}

func (k *Keeper) reconcile(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, err
	}
	static, ending := k.cfg.Pods.At(types.NamespacedName{Namespace: namespace, Name: name})
	mirror, _ := k.cfg.API.Get(namespace, name)
	if mirror != nil {
		if _, ok := pod.Mirror(mirror); !ok {
			mirror = nil // a pod of the API's, which has the name
		}
	}
	node := k.cfg.Node()
	pods := object.For(k.cfg.Client, object.Pod)
	switch Decide(static, ending, mirror, node) {
	case Create:
		if made := k.cfg.Pods.Trace(static); made.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, made)
		}
		_, err = pods.Create(ctx, Make(static, node))
		if apierrors.IsAlreadyExists(err) {
			err = nil // the cache will tell, or it is a pod of the API's
		}
		k.count("create", err)
	case Delete:
		now := int64(0)
		err = pods.Delete(ctx, namespace, name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &mirror.UID},
		})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			err = nil // it is gone, or another has come
		}
		k.count("delete", err)
	case Nothing:
		k.tell(ctx, static, mirror)
	}
	if err != nil || static == nil {
		return 0, err
	}
	return again, nil
}

func (k *Keeper) count(operation string, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	k.writes.WithLabelValues(operation, outcome).Inc()
}

// tell writes what is known of a static pod to its mirror.
func (k *Keeper) tell(ctx context.Context, static, mirror *corev1.Pod) {
	if static == nil || mirror == nil || static.Status.StartTime == nil || mirror.DeletionTimestamp != nil || !Fits(static, mirror) {
		return
	}
	k.cfg.Writer.Set(ctx, mirror, *static.Status.DeepCopy())
}

// Set implements worker.Status.
func (k *Keeper) Set(ctx context.Context, p *corev1.Pod, status corev1.PodStatus) {
	if !pod.Static(p) {
		k.cfg.Writer.Set(ctx, p, status)
		return
	}
	k.cfg.Pods.Told(p, status)
	mirror, ok := k.cfg.API.Get(p.Namespace, p.Name)
	if !ok {
		return // it is told when there is one
	}
	static := *p
	static.Status = status
	k.tell(ctx, &static, mirror)
	if over(&static, mirror) {
		k.Changed(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
}

// Delete implements worker.Status: that a static pod has ended does not take it out of the API, where it never was.
func (k *Keeper) Delete(ctx context.Context, p *corev1.Pod) {
	if !pod.Static(p) {
		k.cfg.Writer.Delete(ctx, p)
	}
}

// Forget implements worker.Status. Of static pods the writer knows nothing, only of mirrors.
func (k *Keeper) Forget(uid types.UID) { k.cfg.Writer.Forget(uid) }
