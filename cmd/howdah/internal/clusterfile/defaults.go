package clusterfile

import (
	"net"
	"net/netip"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/cmd/howdah/internal/bootstrap"
)

// What is meant where nothing is said.
const (
	APIPort = 6443
	// NodesPort is not the node agent's 7443: a machine may be both.
	NodesPort      = 7444
	Binary         = "/usr/local/bin/howdah"
	NodeFolder     = "/etc/howdah/node"
	CRI            = "unix:///run/containerd/containerd.sock"
	ReadyTimeout   = 4 * time.Minute
	tokenTTL       = 24 * time.Hour
	discoveryFor   = time.Minute
	joinFor        = 5 * time.Minute
	serviceSubnet  = "10.96.0.0/16"
	podSubnet      = "10.244.0.0/16"
	domain         = "cluster.local"
	AutoServices   = "auto"
	Systemd        = "systemd"
	Process        = "process"
	dnsAddressRank = 10
)

// Host is what a machine knows of itself.
type Host struct {
	Name    string
	Address string // on the network with the default route
}

// Complete fills in what an InitConfiguration leaves out.
func (c *InitConfiguration) Complete(host Host) {
	c.TypeMeta = metav1.TypeMeta{APIVersion: Version, Kind: InitKind}
	c.Machine.complete(host)
	c.LocalEndpoint.complete(host)
	if c.Timeout == nil {
		c.Timeout = &metav1.Duration{Duration: ReadyTimeout}
	}
	if len(c.BootstrapTokens) == 0 {
		c.BootstrapTokens = []BootstrapToken{{}}
	}
	for i := range c.BootstrapTokens {
		t := &c.BootstrapTokens[i]
		if t.TTL == nil {
			t.TTL = &metav1.Duration{Duration: tokenTTL}
		}
		if len(t.Usages) == 0 {
			t.Usages = bootstrap.Usages
		}
		if len(t.Groups) == 0 {
			t.Groups = []string{bootstrap.DefaultGroup}
		}
	}
}

func (m *Machine) complete(host Host) {
	set(&m.Name, host.Name)
	set(&m.ServiceManager, AutoServices)
	set(&m.Binary, Binary)
}

func (e *LocalEndpoint) complete(host Host) { set(&e.AdvertiseAddress, host.Address) }

// Complete fills in what a ClusterConfiguration leaves out.
func (c *ClusterConfiguration) Complete() {
	c.TypeMeta = metav1.TypeMeta{APIVersion: Version, Kind: ClusterKind}
	if c.Ports.API == 0 {
		c.Ports.API = APIPort
	}
	if c.Ports.Nodes == 0 {
		c.Ports.Nodes = NodesPort
	}
	if len(c.Networking.ServiceSubnets) == 0 {
		c.Networking.ServiceSubnets = []string{serviceSubnet}
	}
	set(&c.Networking.PodSubnet, podSubnet)
	set(&c.Networking.DNSDomain, domain)
	if first, err := netip.ParsePrefix(c.Networking.ServiceSubnets[0]); err == nil {
		set(&c.DNS.ClusterIP, nth(first, dnsAddressRank).String())
	}
}

// nth is an address of a range, which may be too small for it: then checking it says so.
func nth(p netip.Prefix, n int) netip.Addr {
	a := p.Masked().Addr()
	for range n {
		a = a.Next()
	}
	return a
}

// ServiceIP is the address of the Service kubernetes.
func (c *ClusterConfiguration) ServiceIP() string {
	p, err := netip.ParsePrefix(c.Networking.ServiceSubnets[0])
	if err != nil {
		return ""
	}
	return nth(p, 1).String()
}

// Complete fills in what a JoinConfiguration leaves out.
func (c *JoinConfiguration) Complete(host Host) {
	c.TypeMeta = metav1.TypeMeta{APIVersion: Version, Kind: JoinKind}
	c.Machine.complete(host)
	if c.Discovery.Timeout == nil {
		c.Discovery.Timeout = &metav1.Duration{Duration: discoveryFor}
	}
	if c.Timeout == nil {
		c.Timeout = &metav1.Duration{Duration: joinFor}
	}
	if c.ControlPlane != nil {
		c.ControlPlane.LocalEndpoint.complete(host)
		return
	}
	if c.Node == nil {
		c.Node = &Node{}
	}
	set(&c.Node.CRI, CRI)
	set(&c.Node.Folder, NodeFolder)
}

func set(place *string, value string) {
	if *place == "" {
		*place = value
	}
}

// Endpoint is host:port of the gateways, for clients: of all where there is a name for them, else of the one.
func (c *ClusterConfiguration) Endpoint(local LocalEndpoint) string {
	host, port := c.endpointHost(local), c.Ports.API
	if _, text, err := net.SplitHostPort(c.ControlPlaneEndpoint); err == nil {
		if n, err := strconv.ParseInt(text, 10, 32); err == nil {
			port = int32(n)
		}
	}
	return join(host, port)
}

// NodesEndpoint is host:port of the API servers, for node agents.
func (c *ClusterConfiguration) NodesEndpoint(local LocalEndpoint) string {
	return join(c.endpointHost(local), c.Ports.Nodes)
}

func (c *ClusterConfiguration) endpointHost(local LocalEndpoint) string {
	if c.ControlPlaneEndpoint == "" {
		return local.AdvertiseAddress
	}
	if host, _, err := net.SplitHostPort(c.ControlPlaneEndpoint); err == nil {
		return host
	}
	return c.ControlPlaneEndpoint
}

func join(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
