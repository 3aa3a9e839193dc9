package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/cni"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/netpol"
	podspec "howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/route"
)

const (
	// policiesTimeout is how long a new pod waits for the newest policies, and for the pods that they select; then those that are known hold.
	policiesTimeout = 2 * time.Second
	// adoptRetry is the pause between tries to list the sandboxes that run already.
	adoptRetry = time.Second
)

// policies joins the informers, the runtime and the pods' workers to the enforcer of network policies. Policies wait until the pods that they
// may select are known: with only some of them, they would cut what they are to let pass.
type policies struct {
	cfg      Config
	enforcer *netpol.Enforcer
	informer *object.Informer[*networkingv1.NetworkPolicy]
	peers    *peers
	known    chan struct{}                                    // closed when the enforcer has all peers
	own      func(namespace, name string) (*corev1.Pod, bool) // this node's
	adopted  func(pod *corev1.Pod, sandbox string)            // told of the sandboxes of an earlier life
	runtime  runtimeapi.RuntimeServiceClient
}

func newPolicies(cfg Config, informers *object.Informers, pods *object.Informer[*corev1.Pod], own func(namespace, name string) (*corev1.Pod, bool), adopted func(pod *corev1.Pod, sandbox string), runtime runtimeapi.RuntimeServiceClient, node []netip.Addr, tell events) (*policies, error) {
	p := &policies{cfg: cfg, own: own, adopted: adopted, runtime: runtime, informer: object.InformerFor(informers, object.NetworkPolicy), peers: newPeers(cfg.Objects), known: make(chan struct{})}
	var err error
	if p.enforcer, err = netpol.New(netpol.Config{
		Pins: orDefault(cfg.Network.Pins, defaultPins) + "-policy", Link: cni.HostLink,
		LocalAddresses: func() ([]netip.Addr, error) {
			addresses, err := route.LocalAddresses()
			return append(addresses, node...), err
		},
		Problem: tell.policyProblem, Now: cfg.Clock.Now, Tracer: otel.Tracer("nodeagent"), Metrics: cfg.Registerer,
	}); err != nil {
		return nil, err
	}
	p.follow(pods)
	return p, nil
}

// follow has the enforcer hear of every change.
func (p *policies) follow(pods *object.Informer[*corev1.Pod]) {
	p.informer.AddHandler(func(old, now *networkingv1.NetworkPolicy) {
		if now == nil {
			p.enforcer.Delete(context.Background(), old)
			return
		}
		p.peers.Ask()
		select {
		case <-p.known:
			give(context.Background(), p.enforcer, p.informer, now)
		default: // it is given with all others
		}
	})
	inform(p.enforcer, p.peers.namespaces)
	inform(p.enforcer, p.peers.pods)
	// Nobody may be following all pods, and the end of this node's own takes their rules away.
	pods.AddHandler(func(old, now *corev1.Pod) {
		if old != nil && (now == nil || podspec.Finished(now)) {
			gone := *old
			gone.UID = sandboxUID(old)
			p.enforcer.Delete(context.Background(), &gone)
		}
	})
}

// inform gives an enforcer every change of a kind.
func inform[T object.Object](enforcer *netpol.Enforcer, informer *object.Informer[T]) {
	informer.AddHandler(func(old, now T) {
		if any(now) == any(*new(T)) {
			enforcer.Delete(context.Background(), old)
			return
		}
		give(context.Background(), enforcer, informer, now)
	})
}

// give gives an enforcer the state of an object in the trace of the change that made it.
func give[T object.Object](ctx context.Context, enforcer *netpol.Enforcer, informer *object.Informer[T], now T) {
	enforcer.Update(trace.ContextWithRemoteSpanContext(ctx, informer.Trace(now)), now)
}

// giveAll gives an enforcer what a cache has: the handlers may not have heard of everything yet.
func giveAll[T object.Object](ctx context.Context, enforcer *netpol.Enforcer, informer *object.Informer[T], namespace string) {
	for _, o := range informer.List(namespace) {
		give(ctx, enforcer, informer, o)
		if now, ok := informer.Get(o.GetNamespace(), o.GetName()); !ok || now.GetUID() != o.GetUID() { // gone since, and told before
			enforcer.Delete(ctx, o)
		}
	}
}

// run enforces until ctx ends; the informer of policies has its full picture.
func (p *policies) run(ctx context.Context) error {
	return task.Run(ctx, p.enforce, func(ctx context.Context) error {
		return p.peers.Run(ctx, func() { p.learn(ctx) })
	})
}

// learn gives the enforcer all peers, and then the policies that waited for them.
func (p *policies) learn(ctx context.Context) {
	giveAll(ctx, p.enforcer, p.peers.namespaces, "")
	giveAll(ctx, p.enforcer, p.peers.pods, "")
	close(p.known)
	giveAll(ctx, p.enforcer, p.informer, "")
}

func (p *policies) enforce(ctx context.Context) error {
	if len(p.informer.List("")) > 0 {
		if err := p.awaitPeers(ctx); err != nil {
			return err
		}
		giveAll(ctx, p.enforcer, p.informer, "")
	}
	for {
		err := p.adopt(ctx)
		if err == nil {
			break
		}
		slog.Error("list the sandboxes that network policies are about", "err", err)
		timer := p.cfg.Clock.NewTimer(adoptRetry)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
	p.enforcer.Synced()
	return p.enforcer.Run(ctx)
}

// awaitPeers waits until the enforcer has all pods that policies may select.
func (p *policies) awaitPeers(ctx context.Context) error {
	p.peers.Ask()
	select {
	case <-p.known:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the pods that network policies select: %w", ctx.Err())
	}
}

// adopt takes in the sandboxes of an earlier life: their rules are not to be taken away as those of sandboxes that are gone.
func (p *policies) adopt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ready := &runtimeapi.PodSandboxFilter{State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}}
	sandboxes, err := p.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: ready})
	if err != nil {
		return err
	}
	for _, s := range sandboxes.GetItems() {
		pod, ok := p.own(s.GetLabels()[cri.LabelPodNamespace], s.GetLabels()[cri.LabelPodName])
		if ok && pod.UID == types.UID(s.GetLabels()[cri.LabelPodUID]) && !pod.Spec.HostNetwork {
			p.enforcer.Adopt(pod, s.GetId())
			p.adopted(pod, s.GetId())
		}
	}
	return nil
}

// isolate waits until the policies that were there when the pod was bound to the node are in force in its sandbox.
func (p *policies) isolate(ctx context.Context, pod *corev1.Pod, sandbox string) error {
	if p.enforcer.Stands(sandbox) {
		return nil
	}
	p.newest(ctx, pod.Namespace)
	return p.enforcer.Isolate(ctx, pod, sandbox)
}

// newest makes sure that the enforcer knows the policies of a namespace as they are: its news may be later than those of the pod. A pod that
// starts anew must not wait for an API that is away; a policy then lets in what is known of those that it selects.
func (p *policies) newest(ctx context.Context, namespace string) {
	ctx, cancel := context.WithTimeout(ctx, policiesTimeout)
	defer cancel()
	err := p.informer.CatchUp(ctx)
	if len(p.informer.List(namespace)) > 0 {
		err = errors.Join(err, p.awaitPeers(ctx))
	}
	if err != nil {
		slog.Warn("a pod starts under the network policies that are known", "namespace", namespace, "err", err)
	}
	giveAll(ctx, p.enforcer, p.informer, namespace)
}

// enforce runs the enforcer. Where the kernel cannot, the node says so in its condition and goes on running what it runs.
func (n *network) enforce(ctx context.Context) error {
	err := n.policies.run(ctx)
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	slog.Error("network policies ended", "err", err)
	n.fail(fmt.Errorf("policies: %w", err))
	<-ctx.Done()
	return ctx.Err()
}

// Isolate waits until what network policies say of a pod is in force in its sandbox, and what it sends to services is balanced.
func (n *network) Isolate(ctx context.Context, pod *corev1.Pod, sandbox string) error {
	if n.policies == nil || pod.Spec.HostNetwork {
		return nil
	}
	if err := n.policies.isolate(ctx, pod, sandbox); err != nil {
		return err
	}
	return n.balancer.Join(ctx, cni.HostLink(sandbox), ownStack(pod))
}

// ownStack says whether a pod may have a network stack of its own: a runtime class may stand for gVisor or virtual machines, and nothing tells which does.
// Where it has the node's after all, its sockets are balanced, and its packets are none to a service any more.
func ownStack(pod *corev1.Pod) bool {
	return pod.Spec.RuntimeClassName != nil && *pod.Spec.RuntimeClassName != ""
}
