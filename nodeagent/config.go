package nodeagent

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/admit"
	"howdah.dev/nodeagent/internal/credential"
	"howdah.dev/nodeagent/internal/image"
	"howdah.dev/nodeagent/internal/kernel"
	"howdah.dev/nodeagent/internal/logs"
	"howdah.dev/nodeagent/internal/nodestatus"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/pressure"
	"howdah.dev/nodeagent/internal/reserve"
	"howdah.dev/nodeagent/internal/route"
	"howdah.dev/nodeagent/internal/serving"
	"howdah.dev/nodeagent/internal/shutdown"
	"howdah.dev/nodeagent/internal/verify"
	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
)

// Defaults of Config's EvictionHard and Eviction.
const (
	DefaultEvictionHard       = pressure.DefaultHard
	DefaultEvictionTransition = pressure.DefaultTransition
)

// Config of an Agent. NodeName and Objects are required; what else is empty
// gets the default that its comment names.
type Config struct {
	// NodeName is the Node's name.
	NodeName string
	// Objects is the client of the object API.
	Objects *object.Client
	// NodeIP is the node's address, or one of each family separated by a comma, the main one first; default: that of the interface with the
	// default route, and its IPv6 address too where pods have some.
	NodeIP string
	// Labels are given to the Node beside those that every node has.
	Labels map[string]string
	// Taints are those with which the Node is made.
	Taints []corev1.Taint
	// ExternalCloud has the node made with the taint by which it waits until a cloud provider's controller has completed it.
	ExternalCloud bool
	// Port is where the node API is served, gRPC for API servers alone; default 10250.
	Port int32
	// Endpoint is the HTTPS endpoint that a kubelet has; nil opens none.
	Endpoint *Endpoint
	// Pace says how often and how much the node tells of itself; default DefaultPace.
	Pace Pace
	// MaxPods is the most pods the node takes; default 110.
	MaxPods int64
	// PodsPerCore, where not 0, is how many of them there may be for each CPU.
	PodsPerCore int64
	// Reserve is what of the machine is not for pods, beside what EvictionHard keeps back.
	Reserve Reserve
	// PodPIDs is how many processes and threads a pod may have; 0 is as many as the node.
	PodPIDs int64
	// Kernel says what becomes of parameters of the kernel that a kubelet has otherwise; default LeaveKernel.
	Kernel KernelPolicy
	// NoCPUQuota has limits of CPUs not enforced.
	NoCPUQuota bool
	// SeccompDefault has containers that name no profile run with the runtime's.
	SeccompDefault bool
	// LogBounds are those of what the runtime keeps of a container's output; default DefaultLogBounds.
	LogBounds LogBounds
	// ParallelPulls is how many images are pulled at a time; 0 is no limit.
	ParallelPulls int
	// SwapBehavior is the kubelet's memorySwap.swapBehavior: NoSwap, the default, or LimitedSwap.
	SwapBehavior string
	// EvictionHard says below which remainders of memory, disk, inodes or processes the node ends pods, as the kubelet's
	// option of that name; default DefaultEvictionHard. The conditions and what pods may use follow it.
	EvictionHard string
	// Eviction are the other options of it; by default there are no soft thresholds.
	Eviction Eviction
	// Shutdown says how long pods may take to end before the machine goes down; by default they end with it.
	Shutdown Shutdown
	// AllowedUnsafeSysctls are kernel parameters that pods may set beside the safe ones: names, or beginnings that end with an asterisk.
	AllowedUnsafeSysctls []string

	// GitRepos has volumes of the legacy source gitRepo made: git runs as root on the node, with repositories that pods' authors choose.
	GitRepos bool

	// Managers say how single containers get CPUs and memory of NUMA nodes.
	Managers Managers

	// KeepImages says which images stay though no pod needs them; default DefaultImageKeep().
	KeepImages ImageKeep

	// VerifyImages says of which images on the node pods have to prove that they may use them; by default of those that the agent has pulled.
	VerifyImages VerifyImages

	// CredentialProviders are programs that have logins to registries; by default there are none.
	CredentialProviders CredentialProviders

	// RuntimeEndpoint is containerd's socket; default unix:///run/containerd/containerd.sock.
	RuntimeEndpoint string
	// ImagesDir holds image archives (*.tar) to import at start; none by default.
	ImagesDir string
	// RootDir holds the pods' volumes; default /var/lib/howdah. LogDir is where logs go; default /var/log/pods.
	RootDir, LogDir string
	// ContainerLogDir has a link to the log of each container, by which programs that gather logs find them; default "containers" beside LogDir.
	ContainerLogDir string
	// KubeletDir is where plugins look for a kubelet's sockets and put their own, and what CSI drivers mount is below it; default /var/lib/kubelet,
	// which their manifests name. Mounts that drivers' pods make there have to reach the agent and the runtime: it has to be on a shared mount, as
	// all are on hosts with systemd.
	KubeletDir string
	// CgroupMount is the root of the control groups; default /sys/fs/cgroup. CgroupPrefix is the group, relative to
	// it, below which the pods' tree stands; default the root.
	CgroupMount, CgroupPrefix string
	// ResolvConf is the node's own; default /etc/resolv.conf. HostsFile likewise; default /etc/hosts.
	ResolvConf, HostsFile string

	// ClusterDNS are the addresses of the cluster's DNS; without any, pods use the node's.
	ClusterDNS []string
	// ClusterDomain is the cluster's DNS domain; default cluster.local.
	ClusterDomain string

	// Manifests are where the node has pods from beside the API; by default nowhere.
	Manifests Manifests

	// CertificateDir is a folder that `howdah join` has made: the node's client certificate is replaced there before it ends. None by default: then the
	// certificate is somebody else's care.
	CertificateDir string

	// Network is how pods and services are reached; nil leaves the network to somebody else.
	Network *Network

	// Logs takes what containers write, and LogRate is how many bytes a second are sent of each, over a while (256 KiB); nil sends nothing.
	Logs    logsv1.CollectServiceClient
	LogRate int64

	// RefreshEvery is how often ConfigMaps, Secrets and tokens in volumes are brought up to date; default 60 s.
	RefreshEvery time.Duration
	// SystemLogQuery has /logs/ of the endpoint answer what the node's services have logged, in the journal too.
	SystemLogQuery bool
	// MaxContainerRestartPeriod is the longest delay before a failing container starts again, from 1 s to 300 s; default 300 s.
	MaxContainerRestartPeriod time.Duration
	// VolumeStatsEvery is how often it is measured what volumes take up, as the kubelet's volumeStatsAggPeriod; default a minute, negative never.
	VolumeStatsEvery time.Duration
	// Flags are the settings with which the agent was started, "name=value" without secrets, for /flagz.
	Flags []string
	// Clock is the clock; default the real one.
	Clock clock.WithTicker
	// Registerer takes the metrics; default none.
	Registerer prometheus.Registerer
}

// Eviction are the options of pods' ends for what the node is short of; its Hard is Config.EvictionHard.
type Eviction = pressure.Options

// Shutdown are the options of pods' ends before the machine goes down.
type Shutdown = shutdown.Options

// ErrShutDown is what Run returns when the machine is to go down and the pods have ended.
var ErrShutDown = shutdown.ErrDown

// Reserve says what of a machine is not for pods.
type Reserve = reserve.Options

// KernelPolicy says what becomes of parameters of the kernel that differ from a kubelet's.
type KernelPolicy = kernel.Policy

// The policies.
const (
	LeaveKernel   = kernel.Leave
	SetKernel     = kernel.Set
	ProtectKernel = kernel.Protect
)

// Pace says how often and how much a node tells of itself.
type Pace = nodestatus.Pace

// DefaultPace is that of a kubelet.
var DefaultPace = nodestatus.DefaultPace

// LogBounds are the bounds of a container's logs.
type LogBounds = logs.Bounds

// DefaultLogBounds are those of a kubelet.
var DefaultLogBounds = logs.DefaultBounds

// ImageKeep says which images a node keeps though no pod needs them.
type ImageKeep = image.Keep

// DefaultImageKeep is the default of Config.KeepImages.
func DefaultImageKeep() ImageKeep { return image.Defaults }

// VerifyImages are the options of verifying pods' credentials for images that are on the node.
type VerifyImages = verify.Options

// CredentialProviders say which credential provider plugins a node has.
type CredentialProviders = credential.Options

// DefaultVerifyImages is the default of VerifyImages' policy.
const DefaultVerifyImages = verify.Default

// Endpoint is the HTTPS endpoint for metrics-server, Prometheus and whoever else asks kubelets.
type Endpoint struct {
	// Port of the node's address; default 10250. The Node's status tells it, and an annotation that of the node API.
	Port int32
	// ReadOnlyPort, where not 0, serves what only tells to everybody, without TLS.
	ReadOnlyPort int32
	// Health is host:port where /healthz is answered to everybody, without TLS; empty is nowhere.
	Health string
	// Anonymous has the API server asked what system:anonymous may, where a caller says nothing of itself; otherwise it is refused.
	Anonymous bool
	// TLS has the node's certificate.
	TLS *tls.Config
	// Authorities are those of clients' certificates, and the first of them the one that signs the node's.
	Authorities serving.Authorities
	// ClientCAs, which may be nil, sign certificates of clients, too.
	ClientCAs serving.Authorities
	// RotateServerCertificates has the endpoint show a certificate of the signer kubernetes.io/kubelet-serving, which the agent asks for and which
	// somebody has to approve, as a kubelet's serverTLSBootstrap does. That of TLS is shown while there is none.
	RotateServerCertificates bool
	// LogDir is the folder that /logs/ shows; default /var/log.
	LogDir string
}

// complete fills in the defaults and reports what is wrong. agent is the port of the node API.
func (e Endpoint) complete(agent int32) (*Endpoint, error) {
	if e.Port == 0 {
		e.Port = 10250
	}
	if e.LogDir == "" {
		e.LogDir = "/var/log"
	}
	var problems []error
	for what, port := range map[string]int32{"port of the endpoint": e.Port, "read-only port": e.ReadOnlyPort} {
		if port < 0 || port > 65535 {
			problems = append(problems, fmt.Errorf("%s: %d is none", what, port))
		}
	}
	if e.Port == agent || e.Port == e.ReadOnlyPort {
		problems = append(problems, fmt.Errorf("port %d of the endpoint is taken by the node API or the read-only port", e.Port))
	}
	if e.TLS == nil || e.Authorities == nil {
		problems = append(problems, errors.New("the endpoint has no certificate, or no authority of clients"))
	}
	return &e, errors.Join(problems...)
}

// Network is what the agent needs to know of the cluster's network.
type Network struct {
	// PodCIDRs and ServiceCIDRs are the cluster's ranges.
	PodCIDRs, ServiceCIDRs []netip.Prefix
	// LoadBalancerCIDRs are the ranges of the nodes' network that load balancers' addresses are from; the node answers for those that it is given.
	LoadBalancerCIDRs []netip.Prefix
	// Overlay says which nodes' pods are reached through a tunnel: "none" (the default), "auto", those of other networks, or "vxlan", all of them.
	Overlay string
	// CNIConfig is the file that makes containerd's network ready; default /etc/cni/net.d/10-howdah.conflist.
	CNIConfig string
	// CNIData keeps the ledger of addresses; default /var/lib/cni/howdah.
	CNIData string
	// Cgroup is the node's cgroup2 root; default <CgroupMount>/unified where it exists, else CgroupMount.
	Cgroup string
	// Pins is a folder on a bpffs; default /sys/fs/bpf/howdah.
	Pins string
}

// complete fills in the defaults and reports all problems at once.
func (c Config) complete() (Config, error) {
	fill := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	fill(&c.RuntimeEndpoint, "unix:///run/containerd/containerd.sock")
	fill(&c.RootDir, "/var/lib/howdah")
	fill(&c.KubeletDir, "/var/lib/kubelet")
	fill(&c.LogDir, "/var/log/pods")
	fill(&c.ContainerLogDir, filepath.Join(filepath.Dir(c.LogDir), "containers"))
	fill(&c.CgroupMount, "/sys/fs/cgroup")
	fill(&c.ResolvConf, "/etc/resolv.conf")
	fill(&c.HostsFile, "/etc/hosts")
	fill(&c.ClusterDomain, "cluster.local")
	fill(&c.EvictionHard, DefaultEvictionHard)
	fill(&c.SwapBehavior, noSwap)
	if c.Port == 0 {
		c.Port = 10250
	}
	if c.MaxPods == 0 {
		c.MaxPods = 110
	}
	if c.PodsPerCore > 0 {
		c.MaxPods = min(c.MaxPods, c.PodsPerCore*int64(runtime.NumCPU()))
	}
	if c.Pace == (Pace{}) {
		c.Pace = DefaultPace
	}
	if c.LogBounds == (LogBounds{}) {
		c.LogBounds = DefaultLogBounds
	}
	if c.KeepImages == (ImageKeep{}) {
		c.KeepImages = image.Defaults
	}
	if c.RefreshEvery == 0 {
		c.RefreshEvery = time.Minute
	}
	if c.VolumeStatsEvery == 0 {
		c.VolumeStatsEvery = time.Minute
	}
	if c.MaxContainerRestartPeriod == 0 {
		c.MaxContainerRestartPeriod = pod.BackoffMax
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	c.Manifests, c.Managers = c.Manifests.complete(), c.Managers.complete()
	var problem error
	if c.Endpoint != nil {
		c.Endpoint, problem = c.Endpoint.complete(c.Port)
	}
	return c, errors.Join(c.validate(), problem, c.Manifests.validate(), c.Managers.validate(c.Reserve.Total()), c.Reserve.Validate(), c.LogBounds.Validate(), c.Pace.Validate(), c.validateRegistration())
}

// What containers have of the node's swap space, as kubelets name it.
const noSwap, limitedSwap = "NoSwap", "LimitedSwap"

// parseNodeIP reads the addresses of a node: at most one of each family.
func parseNodeIP(text string) ([]netip.Addr, error) {
	var out []netip.Addr
	for part := range strings.SplitSeq(text, ",") {
		a, err := netip.ParseAddr(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("node address: %w", err)
		}
		out = append(out, a.Unmap())
	}
	if len(out) > 2 || len(out) == 2 && out[0].Is4() == out[1].Is4() {
		return nil, fmt.Errorf("node address: %q has more than one of a family", text)
	}
	return out, nil
}

// nodeIPs picks of a machine's addresses, in order, the first of each family that the node has use for.
func (c Config) nodeIPs(machine []string) (string, error) {
	v6 := c.Network != nil && slices.ContainsFunc(c.Network.PodCIDRs, func(p netip.Prefix) bool { return p.Addr().Is6() })
	var out []string
	var has4, has6 bool
	for _, text := range machine {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return "", fmt.Errorf("this machine's address: %w", err)
		}
		switch {
		case a.Is4() && !has4:
			has4 = true
		case a.Is6() && !has6 && (v6 || len(machine) == 1):
			has6 = true
		default:
			continue
		}
		out = append(out, text)
	}
	return strings.Join(out, ","), nil
}

// hostIPs are the node's addresses, the main one first. The configuration is complete.
func (c Config) hostIPs() []string {
	var out []string
	addresses, _ := parseNodeIP(c.NodeIP)
	for _, a := range addresses {
		out = append(out, a.String())
	}
	return out
}

// eviction are all options of pods' ends for what the node is short of.
func (c Config) eviction() pressure.Options {
	all := c.Eviction
	all.Hard = c.EvictionHard
	return all
}

func (c Config) validate() error {
	var problems []error
	for _, problem := range validation.IsDNS1123Subdomain(c.NodeName) {
		problems = append(problems, fmt.Errorf("node name %q: %s", c.NodeName, problem))
	}
	if c.Objects == nil {
		problems = append(problems, errors.New("the client of the object API is missing"))
	}
	if _, err := parseNodeIP(c.NodeIP); err != nil && c.NodeIP != "" {
		problems = append(problems, err)
	}
	if c.Network != nil {
		if _, err := route.ParseOverlay(c.Network.Overlay); err != nil {
			problems = append(problems, err)
		}
	}
	for _, dns := range c.ClusterDNS {
		if _, err := netip.ParseAddr(dns); err != nil {
			problems = append(problems, fmt.Errorf("address of the cluster's DNS: %w", err))
		}
	}
	for what, path := range map[string]string{"root folder": c.RootDir, "log folder": c.LogDir, "folder of plugins": c.KubeletDir} {
		if !filepath.IsAbs(path) {
			problems = append(problems, fmt.Errorf("%s %q is not an absolute path", what, path))
		}
	}
	if c.MaxPods < 1 {
		problems = append(problems, fmt.Errorf("a node takes at least one pod, not %d", c.MaxPods))
	}
	for what, n := range map[string]int64{"pods of a core": c.PodsPerCore, "processes of a pod": c.PodPIDs, "images that are pulled at a time": int64(c.ParallelPulls)} {
		if n < 0 {
			problems = append(problems, fmt.Errorf("%s: there cannot be %d", what, n))
		}
	}
	if c.SwapBehavior != noSwap && c.SwapBehavior != limitedSwap {
		problems = append(problems, fmt.Errorf("swap behavior %q is neither %s nor %s", c.SwapBehavior, noSwap, limitedSwap))
	}
	if p := c.MaxContainerRestartPeriod; p != 0 && (p < time.Second || p > pod.BackoffMax) {
		problems = append(problems, fmt.Errorf("the longest delay before a container starts again is from 1s to %v, not %v", pod.BackoffMax, p))
	}
	if _, err := c.eviction().Parse(); err != nil {
		problems = append(problems, err)
	}
	if _, err := c.Shutdown.Groups(); err != nil {
		problems = append(problems, err)
	}
	if _, err := c.VerifyImages.Rules(); err != nil {
		problems = append(problems, err)
	}
	if err := c.CredentialProviders.Check(); err != nil {
		problems = append(problems, err)
	}
	if _, err := admit.NewSysctls(c.AllowedUnsafeSysctls); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
