// Package podcert gets the keys and certificates that pods have in projected volumes of the source podCertificate: it makes the key, asks the signer
// with a PodCertificateRequest, and asks again before the certificate ends. Keys are in memory and in the pod's volume alone: an agent that starts
// again asks anew for all of them, and pods have their old ones until then.
package podcert

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
)

const (
	// patience is how long a pod that has no certificate yet waits for its signer before that is told and tried again later.
	patience = 2 * time.Second
	// spread is by how much later than signers say certificates are replaced at most, so that not all pods ask at once.
	spread = 5 * time.Minute
)

// Config of a Keeper.
type Config struct {
	Client *object.Client
	// Node is the node as the API has it, nil before that is known.
	Node     func() *corev1.Node
	NodeName string
	// Pods are those of the node.
	Pods func() []*corev1.Pod
	// Event tells of a pod.
	Event func(pod *corev1.Pod, kind, reason, message string)
	Clock clock.WithTicker
	// Registerer may be nil.
	Registerer prometheus.Registerer
}

// Keeper has the certificates of the node's pods.
type Keeper struct {
	cfg Config

	needed   chan struct{} // closed once a pod has asked for a certificate
	needOnce sync.Once

	mu      sync.Mutex
	records map[source]*record
}

// source is where a certificate goes.
type source struct {
	pod    types.UID
	volume string
	index  int // among the volume's sources
}

// record is guarded by the Keeper's lock, but for settled.
type record struct {
	state
	settled chan struct{} // has an element when something may have become of the request
}

// New returns a Keeper.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, needed: make(chan struct{}), records: map[source]*record{}}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(collector{k})
	}
	return k
}

// Run follows what becomes of the node's requests, once there are some.
func (k *Keeper) Run(ctx context.Context) error {
	select {
	case <-k.needed:
	case <-ctx.Done():
		return ctx.Err()
	}
	set := object.NewInformers(k.cfg.Client)
	requests := object.InformerFor(set, object.PodCertificateRequest, object.Option{FieldSelector: "spec.nodeName=" + k.cfg.NodeName})
	requests.AddHandler(func(old, now *certificatesv1beta1.PodCertificateRequest) {
		if now == nil {
			now = old
		}
		k.wake(now.Spec.PodUID)
	})
	return set.Run(ctx)
}

// wake has those look again who wait for a request of the pod.
func (k *Keeper) wake(pod types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for at, r := range k.records {
		if at.pod == pod {
			select {
			case r.settled <- struct{}{}:
			default: // it has not looked since the last one
			}
		}
	}
}

// Bundle returns the key and the certificates of a source of a pod's volume. It asks for them where there are none, or others are due. A pod that has
// none waits a moment for its signer; one that has keeps what it has meanwhile. It is called for a pod by one goroutine at a time.
func (k *Keeper) Bundle(ctx context.Context, pod *corev1.Pod, volume string, index int, want *corev1.PodCertificateProjection) (Bundle, error) {
	k.needOnce.Do(func() { close(k.needed) })
	r := k.record(source{pod.UID, volume, index})
	if err := k.advance(ctx, pod, r, want); err != nil {
		if !k.has(r) || ctx.Err() != nil {
			return Bundle{}, err
		}
		slog.WarnContext(ctx, "a certificate cannot be asked for; the pod keeps what it has", "namespace", pod.Namespace, "pod", pod.Name, "volume", volume, "err", err)
	}
	if !k.waits(r) {
		return k.told(pod, r)
	}
	timer := k.cfg.Clock.NewTimer(patience)
	defer timer.Stop()
	for k.waits(r) {
		select {
		case <-r.settled:
			if err := k.look(ctx, pod, r); err != nil {
				return Bundle{}, err
			}
		case <-timer.C():
			return k.told(pod, r)
		case <-ctx.Done():
			return Bundle{}, ctx.Err()
		}
	}
	return k.told(pod, r)
}

// has reports whether there is something to give to the pod.
func (k *Keeper) has(r *record) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return r.held != nil
}

// waits reports whether the pod cannot start without an answer.
func (k *Keeper) waits(r *record) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return r.held == nil && r.asked != nil
}

// told returns what the pod may have, and tells of what is wrong with it.
func (k *Keeper) told(pod *corev1.Pod, r *record) (Bundle, error) {
	k.mu.Lock()
	events := r.late(k.cfg.Clock.Now())
	b, err := r.bundle()
	k.mu.Unlock()
	for _, e := range events {
		k.cfg.Event(pod, corev1.EventTypeWarning, e.reason, e.message)
	}
	return b, err
}

func (k *Keeper) record(at source) *record {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.records[at]
	if r == nil {
		r = &record{settled: make(chan struct{}, 1)}
		k.records[at] = r
	}
	return r
}

// advance looks what became of a request, or makes one where it is time to.
func (k *Keeper) advance(ctx context.Context, pod *corev1.Pod, r *record, want *corev1.PodCertificateProjection) error {
	if err := k.look(ctx, pod, r); err != nil {
		return err
	}
	k.mu.Lock()
	due := r.due(k.cfg.Clock.Now())
	k.mu.Unlock()
	if !due {
		return nil
	}
	made, err := k.ask(ctx, pod, want)
	if err != nil {
		return err
	}
	k.mu.Lock()
	r.asked = made
	k.mu.Unlock()
	return nil
}

// ask makes a key and a request for a certificate of it.
func (k *Keeper) ask(ctx context.Context, pod *corev1.Pod, want *corev1.PodCertificateProjection) (*asked, error) {
	node := k.cfg.Node()
	if node == nil {
		return nil, fmt.Errorf("while getting node object from local cache: node %q not found", k.cfg.NodeName)
	}
	account, err := object.For(k.cfg.Client, object.ServiceAccount).Get(obs.Untraced(ctx), pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return nil, fmt.Errorf("while fetching service account: %w", err)
	}
	key, proof, err := newKey(want.KeyType)
	if err != nil {
		return nil, err
	}
	made, err := object.For(k.cfg.Client, object.PodCertificateRequest).Create(ctx, request(node, pod, account.UID, want, proof))
	if err != nil {
		return nil, fmt.Errorf("while creating PodCertificateRequest: %w", err)
	}
	return &asked{name: made.Name, uid: made.UID, key: key}, nil
}

// look reads what became of a request. One that somebody has removed is forgotten, so that another is made.
func (k *Keeper) look(ctx context.Context, pod *corev1.Pod, r *record) error {
	k.mu.Lock()
	open := r.asked
	k.mu.Unlock()
	if open == nil {
		return nil
	}
	answer, err := object.For(k.cfg.Client, object.PodCertificateRequest).Get(obs.Untraced(ctx), pod.Namespace, open.name)
	gone := apierrors.IsNotFound(err) || err == nil && answer.UID != open.uid
	if err != nil && !gone {
		return fmt.Errorf("while getting PodCertificateRequest %q: %w", pod.Namespace+"/"+open.name, err)
	}
	k.mu.Lock()
	var event *told
	if gone {
		r.asked = nil
	} else {
		event = r.settle(answer, rand.N(spread))
	}
	k.mu.Unlock()
	if event != nil {
		k.cfg.Event(pod, corev1.EventTypeWarning, event.reason, event.message)
	}
	return nil
}

// Forget drops what there is of a pod.
func (k *Keeper) Forget(pod types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for at := range k.records {
		if at.pod == pod {
			delete(k.records, at)
		}
	}
}

// ownedBy has a request go with its pod.
func ownedBy(pod *corev1.Pod) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
}
