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
	"howdah.dev/nodeagent/internal/cni"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/netpol"
	podspec "howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/route"
)

const (
	// peerPods are the pods whose addresses are their own.
	peerPods = "spec.hostNetwork=false,status.phase!=Failed,status.phase!=Succeeded"
	// policiesTimeout is how long a new pod waits for the newest policies; then those that are known hold.
	policiesTimeout = 2 * time.Second
	// adoptRetry is the pause between tries to list the sandboxes that run already.
	adoptRetry = time.Second
)

// policies joins the informers, the runtime and the pods' workers to the enforcer of network policies.
type policies struct {
	cfg      Config
	enforcer *netpol.Enforcer
	informer *object.Informer[*networkingv1.NetworkPolicy]
	own      func(namespace, name string) (*corev1.Pod, bool) // this node's
	adopted  func(pod *corev1.Pod, sandbox string)            // told of the sandboxes of an earlier life
	runtime  runtimeapi.RuntimeServiceClient
	replay   []func() // give everything in a cache to the enforcer
}

func newPolicies(cfg Config, informers *object.Informers, own func(namespace, name string) (*corev1.Pod, bool), adopted func(pod *corev1.Pod, sandbox string), runtime runtimeapi.RuntimeServiceClient, node []netip.Addr, tell events) (*policies, error) {
	p := &policies{cfg: cfg, own: own, adopted: adopted, runtime: runtime, informer: object.InformerFor(informers, object.NetworkPolicy)}
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
	inform(p, p.informer)
	inform(p, object.InformerFor(informers, object.Namespace))
	inform(p, object.InformerFor(informers, object.Pod, object.Option{FieldSelector: peerPods, Slim: func(o object.Object) {
		if pod, ok := o.(*corev1.Pod); ok {
			if hash, ok := podspec.Mirror(pod); ok { // sandboxes know the pod that it stands for
				pod.UID = types.UID(hash)
			}
			netpol.SlimPod(pod)
		}
	}}))
	return p, nil
}

// inform gives the enforcer every change of a kind, in the trace of the change.
func inform[T object.Object](p *policies, informer *object.Informer[T]) {
	update := func(now T) {
		p.enforcer.Update(trace.ContextWithRemoteSpanContext(context.Background(), informer.Trace(now)), now)
	}
	informer.AddHandler(func(old, now T) {
		if any(now) == any(*new(T)) {
			p.enforcer.Delete(context.Background(), old)
			return
		}
		update(now)
	})
	p.replay = append(p.replay, func() {
		for _, o := range informer.List("") {
			update(o)
		}
	})
}

// run enforces until ctx ends; every informer has its full picture.
func (p *policies) run(ctx context.Context) error {
	for _, all := range p.replay { // the handlers may not have heard of everything yet
		all()
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

// newest makes sure that the enforcer knows the policies of a namespace as they are: its news may be later than those of the pod.
func (p *policies) newest(ctx context.Context, namespace string) {
	ctx, cancel := context.WithTimeout(ctx, policiesTimeout)
	defer cancel()
	if err := p.informer.CatchUp(ctx); err != nil { // a pod that starts anew must not wait for an API that is away
		slog.Warn("a pod starts under the network policies that are known", "namespace", namespace, "err", err)
	}
	for _, policy := range p.informer.List(namespace) {
		p.enforcer.Update(trace.ContextWithRemoteSpanContext(ctx, p.informer.Trace(policy)), policy)
		if now, ok := p.informer.Get(namespace, policy.Name); !ok || now.UID != policy.UID { // gone since, and told before
			p.enforcer.Delete(ctx, policy)
		}
	}
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
