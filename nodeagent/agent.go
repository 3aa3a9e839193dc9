// Package nodeagent is howdah's role on every node: it registers the node,
// runs the pods that are bound to it over CRI, reports on them, serves
// streams into them, and keeps the node's network.
package nodeagent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/admit"
	"howdah.dev/nodeagent/internal/authorities"
	"howdah.dev/nodeagent/internal/clientcert"
	"howdah.dev/nodeagent/internal/collect"
	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/endpoint"
	"howdah.dev/nodeagent/internal/evict"
	"howdah.dev/nodeagent/internal/image"
	"howdah.dev/nodeagent/internal/kernel"
	"howdah.dev/nodeagent/internal/localpath"
	"howdah.dev/nodeagent/internal/logs"
	"howdah.dev/nodeagent/internal/mirror"
	"howdah.dev/nodeagent/internal/nodestatus"
	"howdah.dev/nodeagent/internal/pleg"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/podcert"
	"howdah.dev/nodeagent/internal/pressure"
	"howdah.dev/nodeagent/internal/serving"
	"howdah.dev/nodeagent/internal/shutdown"
	"howdah.dev/nodeagent/internal/source"
	"howdah.dev/nodeagent/internal/status"
	"howdah.dev/nodeagent/internal/stream"
	"howdah.dev/nodeagent/internal/usage"
	"howdah.dev/nodeagent/internal/verify"
	"howdah.dev/nodeagent/internal/volume"
	"howdah.dev/nodeagent/internal/volumestats"
	"howdah.dev/nodeagent/internal/watchdog"
	"howdah.dev/nodeagent/internal/worker"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
)

// Agent is one node's agent.
type Agent struct {
	cfg         Config
	runtime     *cri.Client
	informers   *object.Informers
	pods        *object.Informer[*corev1.Pod] // those that the API has for the node, mirrors among them
	running     *source.Set                   // those that the node runs
	mirrors     *mirror.Keeper
	initial     atomic.Pointer[corev1.Node] // the node before the API has it
	services    *object.Informer[*corev1.Service]
	nodes       *object.Informer[*corev1.Node]
	writer      *status.Writer
	reporter    *nodestatus.Reporter
	enforcer    *enforcer
	workers     *worker.Manager
	volumes     *volume.Manager
	podCerts    *podcert.Keeper
	pleg        *pleg.Generator
	importer    *image.Importer
	pulls       *verify.Records
	collector   *image.Collector
	watcher     *logs.Watcher
	rotator     *logs.Rotator
	sender      *collect.Collector // nil: nobody keeps what containers write
	streams     *stream.Server
	endpoint    *endpoint.Server
	serving     *serving.Keeper       // nil: the endpoint shows the certificate that it is given
	certificate *clientcert.Keeper    // nil: the node's own certificate is not the agent's care
	authorities *authorities.Follower // nil, too, then
	usage       *usage.Gatherer
	evictor     *evict.Keeper
	volumeStats *volumestats.Keeper
	pressure    *pressure.Keeper
	shutdown    *shutdown.Keeper
	network     *network
	resources   *resources
	watchdog    *watchdog.Keeper
	remover     *localpath.Remover
	drivers     *drivers
	record      func(ctx context.Context) error
	hostDNS     container.DNS
	pageLimits  bool // control groups can limit huge pages
	swap        container.Swap
	sysctls     admit.Sysctls
	working     chan struct{} // closed once pods are taken care of
}

// New builds an agent; it starts nothing.
func New(cfg Config) (*Agent, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("node agent: %w", err)
	}
	thresholds, err := cfg.eviction().Parse()
	if err != nil {
		return nil, fmt.Errorf("node agent: %w", err)
	}
	sysctls, err := admit.NewSysctls(cfg.AllowedUnsafeSysctls)
	if err != nil {
		return nil, fmt.Errorf("node agent: %w", err)
	}
	machine := nodestatus.ThisMachine(cfg.RootDir, thresholds)
	if cfg.NodeIP == "" {
		addresses, err := machine.Addresses()
		if err != nil {
			return nil, fmt.Errorf("node agent: %w", err)
		}
		if cfg.NodeIP, err = cfg.nodeIPs(addresses); err != nil {
			return nil, fmt.Errorf("node agent: %w", err)
		}
	}
	a := &Agent{cfg: cfg, sysctls: sysctls, informers: object.NewInformers(cfg.Objects), working: make(chan struct{})}
	if a.hostDNS, err = container.ReadDNS(cfg.ResolvConf); err != nil {
		return nil, fmt.Errorf("node agent: %w", err)
	}
	if a.runtime, err = cri.Dial(cfg.RuntimeEndpoint, cfg.Registerer); err != nil {
		return nil, fmt.Errorf("node agent: %w", err)
	}
	a.pods = object.InformerFor(a.informers, object.Pod, object.Option{FieldSelector: "spec.nodeName=" + cfg.NodeName})
	a.services, a.nodes = object.InformerFor(a.informers, object.Service), object.InformerFor(a.informers, object.Node)
	if dir := cfg.CertificateDir; dir != "" {
		a.certificate, err = clientcert.New(clientcert.Config{NodeName: cfg.NodeName, Dir: dir, Client: cfg.Objects, Clock: cfg.Clock, Registerer: cfg.Registerer})
		if err != nil {
			return nil, fmt.Errorf("node agent: %w", err)
		}
		a.authorities = authorities.New(authorities.Config{
			File: filepath.Join(dir, "ca.crt"), Documents: cfg.Objects.Discovery(), Clock: cfg.Clock, Registerer: cfg.Registerer,
		})
	}
	if err := a.build(machine, thresholds); err != nil {
		return nil, fmt.Errorf("node agent: %w", err)
	}
	a.nodes.AddHandler(func(_, now *corev1.Node) {
		if now != nil && now.Name == cfg.NodeName {
			a.reporter.Observe(now)
		}
	})
	return a, nil
}

// keepCertificate replaces the node's client certificate before it ends, and follows the cluster's authorities, also while the runtime is away.
func (a *Agent) keepCertificate(ctx context.Context) error {
	if a.certificate == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return task.Run(ctx, a.certificate.Run, a.authorities.Run)
}

// images are those that the node's pods name.
func (a *Agent) images() []string {
	var out []string
	for _, p := range a.running.List() {
		if !pod.Finished(p) {
			out = append(out, pod.Images(p)...)
		}
	}
	return out
}

// node describes the node for the pods that run on it.
func (a *Agent) node() container.Node {
	n := container.Node{
		Name: a.cfg.NodeName, RootDir: a.cfg.RootDir, LogDir: a.cfg.LogDir, KubeletDir: a.cfg.KubeletDir,
		ClusterDNS: a.cfg.ClusterDNS, ClusterDomain: a.cfg.ClusterDomain, HostDNS: a.hostDNS, HostsFile: a.cfg.HostsFile, PageLimits: a.pageLimits,
		Swap: a.swap, SeccompDefault: a.cfg.SeccompDefault, NoCPUQuota: a.cfg.NoCPUQuota,
	}
	if node := a.self(); node != nil {
		n.Capacity, n.Allocatable = node.Status.Capacity, node.Status.Allocatable
		n.Handlers = node.Status.RuntimeHandlers
	}
	return n
}

// freshNode is the node as the API has it this moment.
func (a *Agent) freshNode(ctx context.Context) (*corev1.Node, error) {
	node, err := object.For(a.cfg.Objects, object.Node).Get(ctx, "", a.cfg.NodeName)
	if err != nil {
		return nil, err
	}
	return a.resources.on(node), nil
}

// room is what the node has for a pod.
func (a *Agent) room(p *corev1.Pod) pod.Room {
	r := pod.Room{Allocatable: a.node().Allocatable, Others: corev1.ResourceList{}}
	r.Fixed, r.FixedBy = a.resources.fixed(p)
	for _, other := range a.running.List() {
		if other.UID == p.UID || pod.Finished(other) {
			continue
		}
		for name, q := range pod.Requests(other) {
			sum := r.Others[name]
			sum.Add(q)
			r.Others[name] = sum
		}
	}
	return r
}

// Register adds the node API to a gRPC server.
func (a *Agent) Register(server grpc.ServiceRegistrar) {
	nodev1.RegisterNodeServiceServer(server, a.streams)
}

// Ready waits until the agent takes care of its pods; false says that ctx
// has ended before.
func (a *Agent) Ready(ctx context.Context) bool {
	select {
	case <-a.working:
		return true
	case <-ctx.Done():
		return false
	}
}

// alive asks what all of the agent's parts ask: who holds one of them for ever keeps it from its end, and systemd from a sign of life. That the API or the
// runtime is away is no reason for another start.
func (a *Agent) alive() {
	a.running.List()
	a.workers.Knows("")
	a.reporter.Node()
}

// problems are what keeps the node from being ready, beside the runtime's own.
func (a *Agent) problems() []string { return append(a.shutdown.Problems(), a.network.problems()...) }

// Run is the node's life: it returns when ctx ends, or with the error that
// ended it. Containers run on, in either case; only with ErrShutDown, when the machine is to go down, have they ended before.
func (a *Agent) Run(ctx context.Context) error {
	defer a.runtime.Close()
	return task.Run(ctx, a.keepCertificate, a.watchdog.Run, a.run)
}

func (a *Agent) run(ctx context.Context) error {
	if err := kernel.Apply("/proc/sys", a.cfg.Kernel); err != nil {
		return fmt.Errorf("node agent: %w", err)
	}
	kubelet := a.cfg.KubeletDir // drivers' pods want the folders to be there
	for _, dir := range []string{a.cfg.RootDir, a.cfg.LogDir, filepath.Join(kubelet, "plugins"), filepath.Join(kubelet, "pods")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("node agent: %w", err)
		}
	}
	if err := a.awaitRuntime(ctx); err != nil {
		return err
	}
	if err := a.pulls.Load(); err != nil {
		return fmt.Errorf("node agent: %w", err)
	}
	if a.cfg.ImagesDir != "" {
		if err := a.importer.ImportDir(ctx, a.cfg.ImagesDir); err != nil { // the others can be used
			slog.Error("import images", "err", err)
		}
	}
	if err := a.prepareStatic(ctx); err != nil {
		return err
	}
	return task.Run(ctx, a.informers.Run, a.record, a.watcher.Run, a.runEndpoint, a.workers.Run, a.resources.Run, a.pleg.Run, a.rotator.Run, a.enforcer.Run, a.sendLogs, a.runStatic, a.drivers.watcher.Run, a.drivers.volumes.Run, a.volumes.Run, a.podCerts.Run, a.serve)
}

// sendLogs sends what containers write to the service that keeps it.
func (a *Agent) sendLogs(ctx context.Context) error {
	if a.sender == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return a.sender.Run(ctx)
}

// serve runs what needs the node in the API and full informers.
func (a *Agent) serve(ctx context.Context) error {
	a.pressure.Look(ctx) // what the node is short of is told from the first moment on
	if err := a.reporter.Register(ctx); err != nil {
		return err
	}
	slog.Info("node registered", "node", a.cfg.NodeName, "address", a.cfg.NodeIP)
	return task.Run(ctx, a.reporter.Run, a.reporter.RunLease, a.resources.claims.Slices.Run, func(ctx context.Context) error {
		if !a.informers.Wait(ctx) {
			return ctx.Err()
		}
		// The cache is full before its handlers have heard of everything, and
		// a pod without a worker counts as one that the API does not know.
		a.running.Open()
		close(a.working)
		return task.Run(ctx, a.removeOrphans, a.mirrors.Run, a.writer.Run, a.collector.Run, a.evictor.Run, a.volumeStats.Run, a.pressure.Run, a.shutdown.Run, a.remover.Run, a.network.run, a.drivers.keeper.Run, a.takeBackClaims)
	})
}

// awaitRuntime waits for the runtime's first answer.
func (a *Agent) awaitRuntime(ctx context.Context) error {
	for said := false; ; said = true {
		callCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := a.runtime.Runtime.Version(callCtx, &runtimeapi.VersionRequest{})
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !said {
			slog.Warn("waiting for the container runtime", "endpoint", a.cfg.RuntimeEndpoint, "err", err)
		}
		timer := a.cfg.Clock.NewTimer(500 * time.Millisecond)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

// removeOrphans removes the folders of pods, and takes back what they had, that neither a source nor the
// runtime knows, once every source has told of its pods.
func (a *Agent) removeOrphans(ctx context.Context) error {
	select {
	case <-a.running.Known():
	case <-ctx.Done():
		return ctx.Err()
	}
	for pause := time.Second; !a.removeFolders(ctx); pause = min(2*pause, 2*time.Minute) { // a CSI driver may still have to come
		timer := a.cfg.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// removeFolders reports whether all are removed.
func (a *Agent) removeFolders(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	here, err := a.here(ctx)
	if err != nil {
		slog.Warn("list sandboxes", "err", err)
		return false
	}
	a.resources.forget(here)
	return a.volumes.Orphans(ctx, here)
}

// here reports which pods the agent or the runtime knows. A folder is made by a pod's worker, which is there before it; so is what a pod is given for itself.
func (a *Agent) here(ctx context.Context) (func(types.UID) bool, error) {
	sandboxes, err := a.runtime.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	known := map[types.UID]bool{}
	for _, s := range sandboxes.GetItems() {
		known[types.UID(s.GetLabels()[cri.LabelPodUID])] = true
	}
	return func(uid types.UID) bool { return known[uid] || a.workers.Knows(uid) }, nil
}

// takeBackClaims takes back what pods claim that are not here any more, once every source has told of its pods.
func (a *Agent) takeBackClaims(ctx context.Context) error {
	select {
	case <-a.running.Known():
		return a.resources.claims.Run(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}
