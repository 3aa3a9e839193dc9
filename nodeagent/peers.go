package nodeagent

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/netpol"
	podspec "howdah.dev/nodeagent/internal/pod"
)

// peerPods are the pods whose addresses are their own.
const peerPods = "spec.hostNetwork=false,status.phase!=Failed,status.phase!=Succeeded"

// peers are the pods and namespaces of the whole cluster, which network policies select. Following them costs each node, and whoever serves
// it, something at every change of any pod: it begins when they are asked for.
type peers struct {
	informers  *object.Informers
	pods       *object.Informer[*corev1.Pod]
	namespaces *object.Informer[*corev1.Namespace]
	ask        func()
	asked      chan struct{}
}

func newPeers(client *object.Client) *peers {
	informers := object.NewInformers(client)
	asked := make(chan struct{})
	return &peers{
		informers:  informers,
		pods:       object.InformerFor(informers, object.Pod, object.Option{FieldSelector: peerPods, Slim: slimPeer}),
		namespaces: object.InformerFor(informers, object.Namespace),
		ask:        sync.OnceFunc(func() { close(asked) }),
		asked:      asked,
	}
}

func slimPeer(o object.Object) {
	if pod, ok := o.(*corev1.Pod); ok {
		pod.UID = sandboxUID(pod)
		netpol.SlimPod(pod)
	}
}

// sandboxUID is a pod's uid as its sandbox has it: those of static pods know what is mirrored.
func sandboxUID(pod *corev1.Pod) types.UID {
	if hash, ok := podspec.Mirror(pod); ok {
		return types.UID(hash)
	}
	return pod.UID
}

// Ask has them followed from now on. It does not wait.
func (p *peers) Ask() { p.ask() }

// Run follows them once they are asked for, until ctx ends, and calls full when the caches have all that there are.
func (p *peers) Run(ctx context.Context, full func()) error {
	select {
	case <-p.asked:
	case <-ctx.Done():
		return ctx.Err()
	}
	return task.Run(ctx, p.informers.Run, func(ctx context.Context) error {
		if p.informers.Wait(ctx) {
			full()
		}
		<-ctx.Done()
		return ctx.Err()
	})
}
