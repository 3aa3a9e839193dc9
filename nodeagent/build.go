package nodeagent

import (
	"context"
	"net/http"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/object"
	"howdah.dev/kit/release"
	"howdah.dev/nodeagent/internal/admit"
	"howdah.dev/nodeagent/internal/cgroup"
	"howdah.dev/nodeagent/internal/collect"
	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/credential"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/csi"
	"howdah.dev/nodeagent/internal/evict"
	"howdah.dev/nodeagent/internal/image"
	"howdah.dev/nodeagent/internal/iscsi"
	"howdah.dev/nodeagent/internal/localpath"
	"howdah.dev/nodeagent/internal/logs"
	"howdah.dev/nodeagent/internal/lookup"
	"howdah.dev/nodeagent/internal/mirror"
	"howdah.dev/nodeagent/internal/nodestatus"
	"howdah.dev/nodeagent/internal/pleg"
	"howdah.dev/nodeagent/internal/podcert"
	"howdah.dev/nodeagent/internal/pressure"
	"howdah.dev/nodeagent/internal/probe"
	"howdah.dev/nodeagent/internal/shutdown"
	"howdah.dev/nodeagent/internal/status"
	"howdah.dev/nodeagent/internal/stream"
	"howdah.dev/nodeagent/internal/usage"
	"howdah.dev/nodeagent/internal/userns"
	"howdah.dev/nodeagent/internal/verify"
	"howdah.dev/nodeagent/internal/volume"
	"howdah.dev/nodeagent/internal/volumestats"
	"howdah.dev/nodeagent/internal/watchdog"
	"howdah.dev/nodeagent/internal/worker"
)

// builder is what several parts of an agent are made with.
type builder struct {
	*Agent
	machine    nodestatus.Machine
	thresholds pressure.Settings
	recorder   record.EventRecorder
	tell       events
	objects    *lookup.Objects
	providers  *credential.Providers
	metrics    *metrics
	probes     *probeMetrics
	cgroups    *cgroup.Tree
}

// build makes the parts and joins them. Each is made after those that it is given; what it asks later, of parts made after it, it asks through a function.
func (a *Agent) build(machine nodestatus.Machine, thresholds pressure.Settings) error {
	cfg := a.cfg
	b := builder{
		Agent: a, machine: machine, thresholds: thresholds, objects: lookup.New(cfg.Objects, a.services, cfg.Clock),
		metrics: newMetrics(cfg.Registerer), probes: newProbeMetrics(), cgroups: cgroup.NewTree(cfg.CgroupMount, cfg.CgroupPrefix),
	}
	tellName(cfg.Registerer, cfg.NodeName)
	b.recorder, a.record = object.Recorder(cfg.Objects, "kubelet", cfg.NodeName)
	b.tell = events{b.recorder}
	a.writer = status.New(cfg.Objects, cfg.Clock, b.metrics.wrote, b.metrics.synced)
	var err error
	if a.resources, err = a.newResources(thresholds); err != nil {
		return err
	}
	users, err := userns.ReadPool("/etc/subuid", "/etc/subgid", cfg.MaxPods)
	if err != nil {
		return err
	}
	a.pageLimits = b.cgroups.LimitsPages()
	a.swap = container.Swap{Bounded: b.cgroups.LimitsSwap(machine.Proc), Limited: cfg.SwapBehavior == limitedSwap, Capacity: machine.Swap()}
	b.cgroups.Measure(cfg.Registerer)
	b.cgroups.PodPIDs = cfg.PodPIDs
	b.cgroups.Unthrottled = func(p *corev1.Pod) bool { return cfg.NoCPUQuota || a.resources.unthrottled(p) }
	b.buildVolumes()
	a.running = a.newSet(b.tell)
	a.network, err = newNetwork(cfg, a.informers, a.pods, a.running.Get, a.services, a.runtime.Runtime, b.tell, func() bool { return a.reporter.Heard() })
	if err != nil {
		return err
	}
	b.buildMirrors()
	b.buildCollector()
	if err := b.buildPulls(); err != nil {
		return err
	}
	b.buildWorkers(users)
	b.followPods()
	b.buildStreams()
	b.buildUsage()
	b.buildPressure()
	if err := b.buildShutdown(); err != nil {
		return err
	}
	a.endpoint = a.newEndpoint(b.probes)
	b.buildReporter()
	if a.watchdog, err = watchdog.New(watchdog.Config{Manager: watchdog.Systemd{}, Alive: a.alive, Clock: cfg.Clock}); err != nil {
		return err
	}
	return b.buildImages()
}

func (b *builder) buildVolumes() {
	cfg := b.cfg
	b.drivers = b.newDrivers(b.objects, b.tell)
	b.podCerts = podcert.New(podcert.Config{
		Client: cfg.Objects, NodeName: cfg.NodeName, Node: func() *corev1.Node { return b.self() }, Pods: func() []*corev1.Pod { return b.running.List() },
		Event: func(pod *corev1.Pod, kind, reason, message string) { b.tell.Event(pod, "", kind, reason, message) },
		Clock: cfg.Clock, Registerer: cfg.Registerer,
	})
	b.volumes = volume.New(volume.Config{
		Drivers: b.drivers.volumes, Attachments: b.drivers.waiter, Device: csi.Device, Command: volume.Execute, GitRepos: cfg.GitRepos,
		RootDir: cfg.RootDir, Objects: b.objects, Certificates: b.podCerts, Mounter: volume.Kernel{}, Clock: cfg.Clock,
		Allocatable: func() corev1.ResourceList { return b.node().Allocatable },
		Pods:        func() []*corev1.Pod { return b.running.List() }, Registerer: cfg.Registerer,
		NodeLabels: b.labels,
		ISCSI: iscsi.New(iscsi.Config{
			Command: volume.Execute, Sys: "/sys", Dev: "/dev", Write: iscsi.Write, Busy: iscsi.Busy, Clock: cfg.Clock, Patience: 30 * time.Second, Rest: 10 * time.Second,
		}),
	})
	b.remover = localpath.New(localpath.Config{
		Client: cfg.Objects, NodeName: cfg.NodeName, Events: b.recorder, Users: b.volumes.Users, Below: volume.Kernel{}.Below,
	})
}

func (b *builder) buildMirrors() {
	b.mirrors = mirror.New(mirror.Config{
		Client: b.cfg.Objects, API: b.pods, Pods: b.running, Writer: b.writer, Node: func() *corev1.Node { return b.reporter.Node() },
		Clock: b.cfg.Clock, Registerer: b.cfg.Registerer,
	})
}

func (b *builder) buildWorkers(users userns.Pool) {
	cfg, appArmor := b.cfg, b.machine.AppArmor()
	b.workers = worker.New(worker.Config{
		Runtime: b.runtime.Runtime, Observer: cri.NewObserver(b.runtime.Runtime),
		Images: image.NewPuller(image.PullerConfig{
			Images: b.runtime.Images, Secrets: b.objects, Providers: b.providers, Records: b.pulls, Events: b.tell, Clock: cfg.Clock, Registerer: cfg.Registerer,
			Parallel: cfg.ParallelPulls,
		}),
		Volumes: b.volumes, Cgroups: b.cgroups, Objects: b.objects, Assigner: b.resources, Claims: b.resources.claims, Classes: b.objects, Users: userns.New(cfg.RootDir, users), Health: b.resources.health,
		Status: b.mirrors, Events: b.tell, Clock: cfg.Clock, Metrics: worker.NewMetrics(cfg.Registerer, cfg.Clock),
		Probes:   b.prober(),
		Node:     b.node,
		HostIPs:  func() []string { return cfg.hostIPs() },
		Trace:    b.trace,
		Rotation: b.network,
		Room:     b.room,
		Site: func() admit.Site {
			return admit.Site{Node: b.resources.on(b.self()), Others: b.running.List(), Sysctls: b.sysctls, AppArmor: appArmor, Down: b.shutdown.Down()}
		},
		FreshNode:    b.freshNode,
		Networked:    cfg.timings().Take,
		Isolate:      b.network.Isolate,
		Ended:        b.running.Ended,
		LogsLeave:    b.logsLeave,
		LogLinks:     logs.Links(cfg.ContainerLogDir),
		RefreshEvery: cfg.RefreshEvery, MaxRestartPeriod: cfg.MaxContainerRestartPeriod,
	})
	b.running.Serve(b.workers)
	b.pleg = pleg.New(b.runtime.Runtime, cautious{b.workers, b.running.Known()}, cfg.Clock, b.metrics.listed, cfg.Registerer)
}

func (b *builder) buildCollector() {
	cfg := b.cfg
	if cfg.Logs == nil {
		return
	}
	b.sender = collect.New(collect.Config{
		Pusher: cfg.Logs, Containers: collect.Containers(b.runtime.Runtime), LogDir: cfg.LogDir, RootDir: cfg.RootDir, Rate: cfg.LogRate,
		Clock: cfg.Clock, Registerer: cfg.Registerer,
	})
}

// logsLeave says that logs are about to be removed.
func (b *builder) logsLeave(path string) {
	if b.sender != nil {
		b.sender.Leaving(path)
	}
}

func (b *builder) prober() *probe.Runner {
	return &probe.Runner{
		Checker: probe.NewChecker(worker.Exec(b.runtime.Runtime)), Clock: b.cfg.Clock, Events: b.tell,
		Count: func(t probe.Target, kind probe.Kind, result string, took time.Duration) {
			b.metrics.probed(kind, result)
			b.probes.probed(t, kind, result, took)
		},
	}
}

// followPods hands what the API has for the node to those that run it and tell of it.
func (b *builder) followPods() {
	b.pods.AddHandler(func(old, now *corev1.Pod) {
		if old != nil && (now == nil || old.UID != now.UID) {
			b.probes.forget(old)
		}
		b.running.Bound(old, now)
		b.mirrors.Bound(old, now)
	})
}

func (b *builder) buildStreams() {
	cfg := b.cfg
	b.watcher = logs.NewWatcher()
	b.rotator = logs.NewRotator(b.runtime.Runtime, cfg.LogBounds, cfg.Clock)
	// Requests to the node that API servers make over the node API go to the same paths as others'.
	late := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.endpoint.Handler().ServeHTTP(w, r) })
	b.streams = stream.New(stream.Config{
		Runtime: b.runtime.Runtime, Logs: logs.NewReader(b.watcher), LogDir: cfg.LogDir, CheckpointDir: filepath.Join(cfg.KubeletDir, "checkpoints"), Clock: cfg.Clock, Opened: b.metrics.opened, Pod: b.running.Get, Node: late,
	})
}

func (b *builder) buildUsage() {
	cfg := b.cfg
	b.volumeStats = volumestats.New(volumestats.Config{
		Pods: b.running.List, Volumes: b.volumes, Every: cfg.VolumeStatsEvery, Clock: cfg.Clock, Registerer: cfg.Registerer,
	})
	b.usage = usage.New(usage.Config{
		Volumes: b.volumeStats.Of,
		Runtime: b.runtime.Runtime, Images: b.runtime.Images, Groups: b.cgroups, Pod: b.running.Get, Proc: "/proc", Sys: "/sys", RootDir: cfg.RootDir, LogDir: cfg.LogDir,
		Root: "/", Pods: filepath.Join("/", cfg.CgroupPrefix, "kubepods"), Clock: cfg.Clock,
	})
}

func (b *builder) buildPressure() {
	cfg := b.cfg
	b.evictor = evict.New(evict.Config{
		Pods: b.running.List, Usage: b.usage, Evict: b.workers.Evict, RootDir: cfg.RootDir, Clock: cfg.Clock, Registerer: cfg.Registerer,
	})
	b.pressure = pressure.New(pressure.Config{
		Settings: b.thresholds, Usage: b.usage, Pods: b.running.List, End: b.workers.End, Sweep: b.workers.Sweep,
		Images: func(ctx context.Context) error { return b.collector.RemoveUnused(ctx) }, Events: nodeEvents{b.tell, cfg.NodeName},
		Changed: func() { b.reporter.Poke() }, Evicted: b.evictor.Count, RootDir: cfg.RootDir, Clock: cfg.Clock, Registerer: cfg.Registerer,
	})
}

func (b *builder) buildShutdown() error {
	cfg := b.cfg
	groups, err := cfg.Shutdown.Groups()
	b.shutdown = shutdown.New(shutdown.Config{
		Groups: groups, Sources: []shutdown.Source{shutdown.Signal{}, shutdown.Logind{}}, Pods: b.running.List, End: b.workers.End, Told: b.writer.Written,
		Event: func(reason, message string) { b.tell.node(cfg.NodeName, corev1.EventTypeNormal, reason, message) }, Changed: func() { b.reporter.Poke() },
		StateFile: filepath.Join(cfg.RootDir, "graceful_node_shutdown_state"), Clock: cfg.Clock, Registerer: cfg.Registerer,
	})
	return err
}

func (b *builder) buildReporter() {
	cfg := b.cfg
	port, agentPort := cfg.Port, int32(0)
	if cfg.Endpoint != nil {
		port, agentPort = cfg.Endpoint.Port, cfg.Port
	}
	b.reporter = nodestatus.New(nodestatus.Config{
		NodeName: cfg.NodeName, Labels: cfg.Labels, Taints: cfg.taints(), Addresses: cfg.hostIPs(), Port: port, AgentPort: agentPort, Version: release.Version(),
		MaxPods: cfg.MaxPods, Pace: cfg.Pace, Machine: b.machine, Client: cfg.Objects, Runtime: b.runtime,
		Clock: cfg.Clock, Problems: b.problems, Short: b.pressure.Short, Devices: b.resources.devices.Capacity, Reserved: cfg.reserved(),
		VolumesInUse: func() []corev1.UniqueVolumeName { return append(b.drivers.volumes.InUse(), b.volumes.InUse()...) },
		Event:        func(kind, reason, message string) { b.tell.node(cfg.NodeName, kind, reason, message) },
		Registerer:   cfg.Registerer,
	})
	b.network.changed = b.reporter.Poke
	b.enforcer = &enforcer{
		cgroups: b.cgroups, machine: b.machine, options: cfg.Reserve, named: cfg.Managers.reserved(), clock: cfg.Clock,
		tell: func(kind, reason, message string) { b.tell.node(cfg.NodeName, kind, reason, message) },
	}
}

// buildPulls makes what knows with whose credentials images were pulled, and what has some of the node's own.
func (b *builder) buildPulls() error {
	cfg := b.cfg
	rules, err := cfg.VerifyImages.Rules()
	b.pulls = verify.New(verify.Config{Dir: filepath.Join(cfg.RootDir, "image_manager"), Rules: rules, Clock: cfg.Clock, Registerer: cfg.Registerer})
	if err != nil {
		return err
	}
	b.providers, err = credential.New(cfg.CredentialProviders, cfg.Clock, cfg.Registerer)
	return err
}

func (b *builder) buildImages() error {
	cfg := b.cfg
	b.importer = image.NewImporter(b.runtime.Conn(), b.pulls.Preloaded)
	var err error
	b.collector, err = image.NewCollector(image.CollectorConfig{
		Images: b.runtime.Images, Containers: b.runtime.Runtime, Records: b.pulls, Keep: cfg.KeepImages, Wanted: b.images, Clock: cfg.Clock, Registerer: cfg.Registerer,
		Short:  func() bool { return b.pressure.Short().Disk },
		Failed: func(message string) { b.tell.imagesStay(cfg.NodeName, message) },
	})
	return err
}
