package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/join"
	"howdah.dev/cmd/howdah/internal/kubeletconfig"
	"howdah.dev/kit/config"
	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	"howdah.dev/kit/rpc"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent"
	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
)

// nodeFlags are a node agent's settings.
type nodeFlags struct {
	name, address, cloud, api, logs, logRate, cri, imagesDir, clusterDomain, evictionHard string
	clusterDNS, clusterCIDRs, serviceCIDRs, balancerCIDRs, sysctls                        []string
	file, logSize                                                                         string
	maxPods, podsPerCore, podPIDs                                                         int64
	labels                                                                                map[string]string
	taints                                                                                []string
	reserve                                                                               nodeagent.Reserve
	quota, seccomp, serial                                                                bool
	logFiles, pulls                                                                       int
	swap                                                                                  string
	port, readOnlyPort                                                                    int32
	anonymous, rotateServing, rotate, gitRepos, logQuery                                  bool
	simulate                                                                              int
	keep                                                                                  nodeagent.ImageKeep
	verify                                                                                nodeagent.VerifyImages
	providers                                                                             nodeagent.CredentialProviders
	volumeStats, maxRestart                                                               time.Duration
	eviction                                                                              nodeagent.Eviction
	shutdown                                                                              nodeagent.Shutdown
	manifests                                                                             nodeagent.Manifests
	overlay                                                                               string
	manifestHeaders                                                                       []string
	managers                                                                              nodeagent.Managers
	pace                                                                                  nodeagent.Pace
	logWorkers                                                                            int
	logEvery                                                                              time.Duration
	resolvConf, healthAddress, dropIns                                                    string
	healthPort                                                                            int32
	tune, protect                                                                         bool
	secure                                                                                tlsFlags
	clients                                                                               clientCAFlag
}

func (n *nodeFlags) flags(cmd *cobra.Command) {
	host, _ := os.Hostname()
	f := cmd.Flags()
	f.StringVar(&n.name, "node-name", host, "name of the node")
	f.StringVar(&n.address, "node-ip", "", "address of the node, or one of each family separated by a comma, the main one first; those of the interface with the default route where empty")
	f.StringVar(&n.cloud, "cloud-provider", "", "external: the node waits, by a taint, until a cloud provider's controller has completed it")
	f.StringVar(&n.api, "apiserver", "dns:///apiserver:7443", "gRPC target of the apiservers")
	f.StringVar(&n.logs, "logs", "", "gRPC target of the logs, which keep what containers write; that of --apiserver is asked there; empty keeps nothing")
	f.StringVar(&n.logRate, "logs-max-rate", "256Ki", "how many bytes a second of a container are sent to --logs, over a while; what it writes beyond that is dropped there, and kubectl logs has it")
	f.StringVar(&n.cri, "cri", criSocket, "socket of the container runtime")
	f.StringVar(&n.imagesDir, "images-dir", "", "folder with image archives to import at the start")
	f.StringSliceVar(&n.clusterDNS, "cluster-dns", nil, "addresses of the cluster's DNS")
	f.StringVar(&n.clusterDomain, "cluster-domain", "cluster.local", "domain of the cluster's DNS")
	f.StringSliceVar(&n.clusterCIDRs, "cluster-cidr", []string{"10.244.0.0/16"}, "addresses of pods")
	f.StringSliceVar(&n.serviceCIDRs, "service-cidr", []string{"10.96.0.0/16"}, "addresses of services")
	f.StringSliceVar(&n.balancerCIDRs, "load-balancer-cidr", nil, "range of the nodes' network that load balancers' addresses are from, as the controllers have it; the node answers for those that it is given")
	f.StringVar(&n.overlay, "overlay", "none", "which nodes' pods are reached through a tunnel (VXLAN, UDP port 4789): none; auto, those of nodes on other networks; vxlan, all. Every node has the same")
	f.StringVar(&n.file, "config", "", "file with a KubeletConfiguration (kubelet.config.k8s.io/v1beta1); the command line and the environment go before it")
	f.StringVar(&n.dropIns, "config-dir", "", "folder of more of them (*.conf): what they say, in the order of their names, goes before what --config does")
	f.StringToStringVar(&n.labels, "node-labels", nil, "labels with which the Node is made (name=value,…)")
	f.StringSliceVar(&n.taints, "register-with-taints", nil, "taints with which the Node is made (KEY=VALUE:EFFECT)")
	f.Int64Var(&n.maxPods, "max-pods", 110, "most pods that the node takes")
	f.Int64Var(&n.podsPerCore, "pods-per-core", 0, "most of them for each CPU; 0 is no limit beside --max-pods")
	f.Int64Var(&n.podPIDs, "pod-max-pids", -1, "most processes and threads of a pod; -1 is no limit of its own")
	f.StringToStringVar(&n.reserve.Kube, "kube-reserved", nil, "what is kept for the cluster's programs, and not for pods (cpu=200m,memory=500Mi,ephemeral-storage=1Gi,pid=1000)")
	f.StringToStringVar(&n.reserve.System, "system-reserved", nil, "what is kept for the machine's own programs, as --kube-reserved")
	f.StringSliceVar(&n.reserve.Enforce, "enforce-node-allocatable", []string{"pods"}, "pods: all pods together get no more than what is not reserved; none")
	f.BoolVar(&n.quota, "cpu-cfs-quota", true, "enforce limits of CPUs")
	f.BoolVar(&n.tune, "kernel-tunables", true, "set parameters of the kernel (vm.overcommit_memory, vm.panic_on_oom, kernel.panic, kernel.panic_on_oops, kernel.keys) as a kubelet does")
	f.BoolVar(&n.protect, "protect-kernel-defaults", false, "do not start where one of them is another, in place of that")
	f.BoolVar(&n.seccomp, "seccomp-default", false, "run containers that name no seccomp profile with the runtime's")
	f.StringVar(&n.logSize, "container-log-max-size", "10Mi", "how long a container's log becomes before another file is begun; negative is as long as it likes")
	f.IntVar(&n.logFiles, "container-log-max-files", nodeagent.DefaultLogBounds.Files, "most files of a container's log, at least 2")
	f.IntVar(&n.logWorkers, "container-log-max-workers", nodeagent.DefaultLogBounds.Workers, "how many containers' logs are seen to at a time")
	f.DurationVar(&n.logEvery, "container-log-monitor-interval", nodeagent.DefaultLogBounds.Every, "how often logs are seen to, at least 3s")
	f.DurationVar(&n.pace.Look, "node-status-update-frequency", nodeagent.DefaultPace.Look, "how often the node looks at itself; what has changed it tells at once")
	f.DurationVar(&n.pace.Tell, "node-status-report-frequency", nodeagent.DefaultPace.Tell, "how often it tells of itself where nothing changes")
	f.DurationVar(&n.pace.Lease, "node-lease-duration", nodeagent.DefaultPace.Lease, "for how long others take the node for alive without hearing of it; it renews its lease four times as often")
	f.IntVar(&n.pace.Images, "node-status-max-images", nodeagent.DefaultPace.Images, "most images that the Node names; -1 is all")
	f.StringVar(&n.resolvConf, "resolv-conf", "/etc/resolv.conf", "the node's own settings of DNS, for pods that use them")
	f.StringVar(&n.healthAddress, "healthz-bind-address", "127.0.0.1", "address of --healthz-port")
	f.Int32Var(&n.healthPort, "healthz-port", 10248, "port where everybody may ask /healthz, without TLS; 0 opens none")
	f.IntVar(&n.pulls, "max-parallel-image-pulls", 0, "most images that are pulled at a time; 0 is no limit")
	f.BoolVar(&n.serial, "serialize-image-pulls", false, "pull one image at a time")
	f.StringVar(&n.swap, "swap-behavior", "NoSwap", "what containers have of the node's swap space: NoSwap, or LimitedSwap, for those of Burstable pods a share as they ask for memory; control groups of version 2")
	f.StringVar(&n.evictionHard, "eviction-hard", nodeagent.DefaultEvictionHard, "below which remainders of memory, disk, inodes or processes pods end at once (signal<quantity or signal<percentage%, …)")
	f.StringVar(&n.eviction.Soft, "eviction-soft", "", "below which remainders pods end after a grace period, in their own time")
	f.StringVar(&n.eviction.SoftGrace, "eviction-soft-grace-period", "", "how long each of --eviction-soft may be passed (signal=duration,…)")
	f.Int64Var(&n.eviction.MaxPodGrace, "eviction-max-pod-grace-period", 0, "most seconds that a pod may take to end because of --eviction-soft")
	f.StringVar(&n.eviction.MinimumReclaim, "eviction-minimum-reclaim", "", "how much more than the threshold has to be left before a shortage is over (signal=quantity or signal=percentage%, …)")
	f.DurationVar(&n.eviction.Transition, "eviction-pressure-transition-period", nodeagent.DefaultEvictionTransition, "how long the node's condition stays after a shortage")
	f.BoolVar(&n.eviction.MergeDefaults, "merge-default-eviction-settings", false, "look at the signals that --eviction-hard does not name by their defaults")
	f.DurationVar(&n.shutdown.Grace, "shutdown-grace-period", 0, "how long pods may take to end before the machine goes down (logind, or SIGPWR); 0 ends none")
	f.DurationVar(&n.shutdown.Critical, "shutdown-grace-period-critical-pods", 0, "how much of --shutdown-grace-period is for pods of the system's priorities, after the others")
	f.StringVar(&n.shutdown.ByPriority, "shutdown-grace-period-by-pod-priority", "", "how long instead pods of at least a priority may take, the lowest first (PRIORITY=DURATION,…)")
	f.DurationVar(&n.volumeStats, "volume-stats-agg-period", time.Minute, "how often it is measured what volumes take up; negative is never")
	f.DurationVar(&n.maxRestart, "max-container-restart-period", 5*time.Minute, "longest delay before a failing container starts again, from 1s to 300s; below 10s it is the first delay, too")
	byDefault := nodeagent.DefaultImageKeep()
	f.IntVar(&n.keep.High, "image-gc-high-threshold", byDefault.High, "percent of the images' disk in use from which on images are removed that no pod needs; 100 is never")
	f.IntVar(&n.keep.Low, "image-gc-low-threshold", byDefault.Low, "percent of the images' disk in use down to which they are removed")
	f.DurationVar(&n.keep.Least, "minimum-image-ttl-duration", byDefault.Least, "how long an image stays at least")
	f.DurationVar(&n.keep.Most, "maximum-image-ttl-duration", byDefault.Most, "how long an image that no pod needs stays at most, more than --minimum-image-ttl-duration; 0 is for ever")
	f.StringVar((*string)(&n.verify.Policy), "image-pull-credentials-verification-policy", string(nodeagent.DefaultVerifyImages), "of which images on the node a pod has to prove with its own credentials that it may use them: NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify")
	f.StringSliceVar(&n.verify.Allowlist, "preloaded-images-verification-allowlist", nil, "images that NeverVerifyAllowlistedImages does not ask about: names without tag or digest, or beginnings of names that end with /*")
	f.StringVar(&n.providers.Config, "image-credential-provider-config", "", "file with a CredentialProviderConfig (kubelet.config.k8s.io/v1), or a folder of such: programs that have logins to registries")
	f.StringVar(&n.providers.BinDir, "image-credential-provider-bin-dir", "", "folder of the programs of --image-credential-provider-config")
	f.StringSliceVar(&n.sysctls, "allowed-unsafe-sysctls", nil, "kernel parameters that pods may set beside the safe ones (names, or beginnings that end with *)")
	f.BoolVar(&n.gitRepos, "git-repo-volumes", false, "make volumes of the legacy source gitRepo: git runs as root on the node, with repositories that pods' authors choose")
	f.StringVar(&n.manifests.Path, "pod-manifest-path", "", "folder of manifests of static pods, or a single one")
	f.DurationVar(&n.manifests.FileEvery, "file-check-frequency", 20*time.Second, "how often the manifests are looked at though nothing was heard of a change")
	f.StringVar(&n.manifests.URL, "manifest-url", "", "URL of a static pod, or of a list of them")
	f.StringSliceVar(&n.manifestHeaders, "manifest-url-header", nil, "headers (NAME:VALUE) for --manifest-url")
	f.DurationVar(&n.manifests.URLEvery, "http-check-frequency", 20*time.Second, "how often --manifest-url is asked")
	f.StringVar(&n.managers.CPUPolicy, "cpu-manager-policy", "none", "who gets CPUs for himself: none, or static, containers of Guaranteed pods that ask for whole ones")
	f.StringToStringVar(&n.managers.CPUOptions, "cpu-manager-policy-options", nil, "options of the policy static: full-pcpus-only, distribute-cpus-across-numa, strict-cpu-reservation (name=true,…)")
	f.DurationVar(&n.managers.CPUEvery, "cpu-manager-reconcile-period", 10*time.Second, "how often the CPUs of running containers are looked at though nothing has changed")
	f.StringVar(&n.managers.ReservedCPUs, "reserved-cpus", "", "CPUs of the system (0,2-3); pods may ask for so many less")
	f.StringVar(&n.managers.MemoryPolicy, "memory-manager-policy", "None", "whose memory is of which NUMA nodes: None, or Static, that of Guaranteed pods")
	f.StringArrayVar(&n.managers.ReservedMemory, "reserved-memory", nil, "memory of the system on each NUMA node (NODE:memory=SIZE,hugepages-2Mi=SIZE;…); together what --eviction-hard keeps back")
	f.StringVar(&n.managers.TopologyPolicy, "topology-manager-policy", "none", "what becomes of pods whose devices, CPUs and memory are not of the same NUMA nodes: none, best-effort, restricted, single-numa-node")
	f.StringVar(&n.managers.TopologyScope, "topology-manager-scope", "container", "whose have to be: those of a container, or of the pod")
	f.StringToStringVar(&n.managers.TopologyOptions, "topology-manager-policy-options", nil, "options of the policy: prefer-closest-numa-nodes, max-allowable-numa-nodes (name=value,…)")
	f.Int32Var(&n.port, "kubelet-port", 10250, "port of the HTTPS endpoint for metrics and whatever else asks kubelets; 0 opens none")
	f.Int32Var(&n.readOnlyPort, "read-only-port", 0, "port on which everybody may read metrics and pods, without TLS; 0 opens none")
	f.BoolVar(&n.anonymous, "anonymous-auth", false, "let callers of the HTTPS endpoint who say nothing of themselves do what system:anonymous may")
	f.BoolVar(&n.logQuery, "enable-system-log-query", false, "answer /logs/?query=SERVICE of the HTTPS endpoint with what the node's services have logged, from the journal or from /var/log")
	f.BoolVar(&n.rotateServing, "rotate-server-certificates", false, "ask the signer kubernetes.io/kubelet-serving for the certificate of the HTTPS endpoint, and for another one before it ends; somebody has to approve each request")
	f.BoolVar(&n.rotate, "rotate-certificates", false, "ask for another client certificate before that in --tls-dir ends, which howdah join has put there")
	n.secure.flags(f)
	n.clients.flags(f, "authorities that sign certificates of the HTTPS endpoint's callers beside the cluster's own")
	f.IntVar(&n.simulate, "simulate", 0, "run so many simulated nodes instead of a real one")
}

// config checks the settings and reports all problems at once. listen is
// where the node API is served.
func (n *nodeFlags) config(listen string) (nodeagent.Config, error) {
	pods, err1 := prefixes("--cluster-cidr", n.clusterCIDRs)
	services, err2 := prefixes("--service-cidr", n.serviceCIDRs)
	_, text, err3 := net.SplitHostPort(listen)
	port, err4 := strconv.ParseInt(text, 10, 32)
	if err3 != nil || err4 != nil {
		err3 = fmt.Errorf("--listen: %q is not [host]:port", listen)
	}
	manifests, err5 := n.staticPods()
	balancers, err6 := prefixes("--load-balancer-cidr", n.balancerCIDRs)
	if n.cloud != "" && n.cloud != "external" {
		err6 = errors.Join(err6, fmt.Errorf("--cloud-provider: %q is neither empty nor external", n.cloud))
	}
	if n.rotateServing && n.port == 0 {
		err6 = errors.Join(err6, errors.New("--rotate-server-certificates: there is no HTTPS endpoint (--kubelet-port is 0)"))
	}
	if n.rotate && n.simulate > 0 {
		err6 = errors.Join(err6, errors.New("--rotate-certificates: simulated nodes have no certificates of their own"))
	}
	bounds, taints, err7 := n.bounds()
	pulls, err8 := n.parallelPulls()
	rate, err := resource.ParseQuantity(n.logRate)
	if err != nil || rate.Value() < 1<<10 {
		err6 = errors.Join(err6, fmt.Errorf("--logs-max-rate: %q is no quantity of bytes from 1Ki on", n.logRate))
	}
	return nodeagent.Config{
		LogRate: rate.Value(), NodeName: n.name, NodeIP: n.address, ExternalCloud: n.cloud == "external", Port: int32(port), MaxPods: n.maxPods, SwapBehavior: n.swap,
		Labels: n.labels, Taints: taints, PodsPerCore: n.podsPerCore, PodPIDs: max(n.podPIDs, 0), Reserve: n.reserve, NoCPUQuota: !n.quota, SeccompDefault: n.seccomp,
		Kernel: n.kernel(), LogBounds: bounds, ParallelPulls: pulls, Pace: n.pace, ResolvConf: n.resolvConf,
		RuntimeEndpoint: n.cri, ImagesDir: n.imagesDir, ClusterDNS: n.clusterDNS, ClusterDomain: n.clusterDomain,
		EvictionHard: n.evictionHard, Eviction: n.eviction, Shutdown: n.shutdown, AllowedUnsafeSysctls: n.sysctls, KeepImages: n.keep, VerifyImages: n.verify, CredentialProviders: n.providers, GitRepos: n.gitRepos, VolumeStatsEvery: n.volumeStats, MaxContainerRestartPeriod: n.maxRestart, SystemLogQuery: n.logQuery, Manifests: manifests, Managers: n.managers,
		Network: &nodeagent.Network{PodCIDRs: pods, ServiceCIDRs: services, LoadBalancerCIDRs: balancers, Overlay: n.overlay}, Clock: clock.RealClock{},
	}, errors.Join(err1, err2, err3, err5, err6, err7, err8)
}

// bounds reads what is bounded, and with which taints the node is made.
func (n *nodeFlags) bounds() (logs nodeagent.LogBounds, taints []corev1.Taint, _ error) {
	var problems []error
	size, err := resource.ParseQuantity(n.logSize)
	if err != nil {
		problems = append(problems, fmt.Errorf("--container-log-max-size: %q: %w", n.logSize, err))
	}
	for _, text := range n.taints {
		t, err := nodeagent.ParseTaint(text)
		taints, problems = append(taints, t), append(problems, err)
	}
	return nodeagent.LogBounds{Size: size.Value(), Files: n.logFiles, Workers: n.logWorkers, Every: n.logEvery}, taints, errors.Join(problems...)
}

// kernel says what becomes of the kernel's parameters.
func (n *nodeFlags) kernel() nodeagent.KernelPolicy {
	switch {
	case n.protect:
		return nodeagent.ProtectKernel
	case n.tune:
		return nodeagent.SetKernel
	}
	return nodeagent.LeaveKernel
}

// parallelPulls is how many images are pulled at a time; 0 is no limit.
func (n *nodeFlags) parallelPulls() (int, error) {
	switch {
	case !n.serial:
		return n.pulls, nil
	case n.pulls > 1:
		return 0, errors.New("--max-parallel-image-pulls is no more than 1 where --serialize-image-pulls is on")
	}
	return 1, nil
}

// endpoint is the HTTPS endpoint; nil is none.
func (n *nodeFlags) endpoint(identity *rpc.Identity) (*nodeagent.Endpoint, error) {
	if n.port == 0 {
		return nil, nil
	}
	e := &nodeagent.Endpoint{Port: n.port, ReadOnlyPort: n.readOnlyPort, Anonymous: n.anonymous, RotateServerCertificates: n.rotateServing, Authorities: identity.Authorities()}
	if n.healthPort != 0 {
		e.Health = net.JoinHostPort(n.healthAddress, strconv.Itoa(int(n.healthPort)))
	}
	shown, err1 := n.secure.server(identity.Public())
	clients, err2 := n.clients.bundle()
	if clients != nil {
		e.ClientCAs = clients
	}
	e.TLS = shown
	return e, errors.Join(err1, err2)
}

// kubeletConfig sets what nobody has set before by the file of --config and those of --config-dir.
func (n *nodeFlags) kubeletConfig(flags *pflag.FlagSet) error {
	var files []string
	if n.file != "" {
		files = append(files, n.file)
	}
	if n.dropIns != "" {
		found, err := filepath.Glob(filepath.Join(n.dropIns, "*.conf")) // in the order of their names
		if err != nil {
			return fmt.Errorf("--config-dir: %w", err)
		}
		files = append(files, found...)
	}
	var read []kubeletconfig.File
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--config: %w", err)
		}
		read = append(read, kubeletconfig.File{Name: file, Data: data})
	}
	source := strings.Join(files, ", ")
	values, err := kubeletconfig.Read(read...)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	return config.Apply(flags, source, values)
}

// staticPods are where the node has pods from beside the API.
func (n *nodeFlags) staticPods() (nodeagent.Manifests, error) {
	m := n.manifests
	m.Header = http.Header{}
	for _, text := range n.manifestHeaders {
		name, value, ok := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return m, errors.New("--manifest-url-header: it is not NAME:VALUE") // the value may be a secret
		}
		m.Header.Add(name, strings.TrimSpace(value))
	}
	return m, nil
}

func prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func nodeagentCommand() *cobra.Command {
	r := &role{name: "nodeagent"}
	var n nodeFlags
	var cmd *cobra.Command
	cmd = r.command("Run this machine's pods", func(ctx context.Context) error {
		cfg, err := n.config(r.listen)
		if err != nil {
			return err
		}
		conn, err := r.dialAPI(n.api)
		if err != nil {
			return err
		}
		defer conn.Close()
		cfg.Objects, cfg.Registerer = object.NewClient(conn, "kubelet"), r.registry
		if n.logs != "" && n.simulate == 0 {
			logs := conn
			if n.logs != n.api {
				if logs, err = r.dialLogs(n.logs); err != nil {
					return err
				}
				defer logs.Close()
			}
			cfg.Logs = logsv1.NewCollectServiceClient(logs)
		}
		if n.simulate > 0 {
			return r.simulate(ctx, cfg, n.simulate)
		}
		if n.rotate {
			cfg.CertificateDir = r.tlsDir
		}
		cfg.Flags = config.Effective(cmd.Flags())
		if cfg.Endpoint, err = n.endpoint(r.identity); err != nil {
			return err
		}
		agent, err := nodeagent.New(cfg)
		if err != nil {
			return err
		}
		return r.serve(ctx, agent, agent.Ready)
	})
	r.flags(cmd)
	n.flags(cmd)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { // after the environment, which goes before it
		if err := n.kubeletConfig(cmd.Flags()); err != nil || r.tlsDir == "" {
			return err
		}
		return config.FromFile(cmd.Flags(), filepath.Join(r.tlsDir, join.SettingsFile))
	}
	return cmd
}

// simulate runs hollow nodes; nobody calls them, so they serve nothing.
func (r *role) simulate(ctx context.Context, cfg nodeagent.Config, count int) error {
	nodes, err := nodeagent.NewSimulation(cfg, count, nodeagent.Hollow{})
	if err != nil {
		return err
	}
	return task.Run(ctx, nodes.Run,
		func(ctx context.Context) error { return obs.ServeMetrics(ctx, r.metricsListen, r.registry, nil) })
}
