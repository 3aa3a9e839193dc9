package clusterfile

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fields are where errors are, each once, in order.
func fields(all field.ErrorList) []string {
	var out []string
	for _, e := range all {
		out = append(out, e.Field)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestValidateCluster(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*ClusterConfiguration)
		want   []string
	}{
		"nothing":              {func(*ClusterConfiguration) {}, nil},
		"no database":          {func(c *ClusterConfiguration) { c.Database.URL = "" }, []string{"database.url"}},
		"another database":     {func(c *ClusterConfiguration) { c.Database.URL = "mysql://secret@x/y" }, []string{"database.url"}},
		"a quote in it":        {func(c *ClusterConfiguration) { c.Database.URL = "postgres://a:s'ecret@x/y" }, []string{"database.url"}},
		"an endpoint":          {func(c *ClusterConfiguration) { c.ControlPlaneEndpoint = "kube.example" }, nil},
		"with a port":          {func(c *ClusterConfiguration) { c.ControlPlaneEndpoint = "192.0.2.1:443" }, nil},
		"with no port":         {func(c *ClusterConfiguration) { c.ControlPlaneEndpoint = "kube.example:0" }, []string{"controlPlaneEndpoint"}},
		"a URL":                {func(c *ClusterConfiguration) { c.ControlPlaneEndpoint = "https://kube.example" }, []string{"controlPlaneEndpoint"}},
		"a bad name":           {func(c *ClusterConfiguration) { c.CertSANs = []string{"fine.example", "_"} }, []string{"certSANs[1]"}},
		"subnets that overlap": {func(c *ClusterConfiguration) { c.Networking.PodSubnet = "10.96.4.0/24" }, []string{"networking.podSubnet"}},
		"subnets of a family": {func(c *ClusterConfiguration) { c.Networking.ServiceSubnets = []string{"10.96.0.0/16", "10.97.0.0/16"} },
			[]string{"networking.serviceSubnets"}},
		"a small subnet":  {func(c *ClusterConfiguration) { c.Networking.ServiceSubnets = []string{"10.96.0.0/29"} }, []string{"dns.clusterIP", "networking.serviceSubnets[0]"}},
		"a port twice":    {func(c *ClusterConfiguration) { c.Ports.Nodes = 6443 }, []string{"ports.nodes"}},
		"a port too high": {func(c *ClusterConfiguration) { c.Ports.API = 70000 }, []string{"ports.api"}},
		"a setting":       {func(c *ClusterConfiguration) { c.Settings = map[string]string{"logs": "true"} }, nil},
		"settings that are none": {func(c *ClusterConfiguration) {
			c.Settings = map[string]string{"logs": "maybe", "log": "x", "listen": ":1"}
		}, []string{"settings[listen]", "settings[log]", "settings[logs]"}},
		"all at once": {func(c *ClusterConfiguration) {
			*c = ClusterConfiguration{Networking: Networking{DNSDomain: "_", PodSubnet: "x"}}
			c.Complete()
		},
			[]string{"database.url", "networking.dnsDomain", "networking.podSubnet"}},
	} {
		_, c := InitDefaults()
		tt.change(&c)
		got := c.Validate(flags{})
		if !slices.Equal(fields(got), tt.want) {
			t.Errorf("%s: %v, want %v", name, got.ToAggregate(), tt.want)
		}
		if len(got) > 0 && strings.Contains(got.ToAggregate().Error(), "ecret") {
			t.Errorf("%s: the error has the secret: %v", name, got.ToAggregate())
		}
	}
}

func TestValidateInit(t *testing.T) {
	t.Parallel()
	const secret = "abcdef.0123456789abcdeX"
	for name, tt := range map[string]struct {
		change func(*InitConfiguration)
		want   []string
	}{
		"nothing":           {func(*InitConfiguration) {}, nil},
		"no address":        {func(c *InitConfiguration) { c.LocalEndpoint.AdvertiseAddress = "127.0.0.1" }, []string{"localAPIEndpoint.advertiseAddress"}},
		"a name":            {func(c *InitConfiguration) { c.LocalEndpoint.BindAddress = "localhost" }, []string{"localAPIEndpoint.bindAddress"}},
		"another manager":   {func(c *InitConfiguration) { c.Machine.ServiceManager = "runit" }, []string{"machine.serviceManager"}},
		"a relative binary": {func(c *InitConfiguration) { c.Machine.Binary = "howdah" }, []string{"machine.binary"}},
		"a bad name":        {func(c *InitConfiguration) { c.Machine.Name = "Machine" }, []string{"machine.name"}},
		"a bad token":       {func(c *InitConfiguration) { c.BootstrapTokens[0].Token = secret }, []string{"bootstrapTokens[0].token"}},
		"a bad group":       {func(c *InitConfiguration) { c.BootstrapTokens[0].Groups = []string{"system:masters"} }, []string{"bootstrapTokens[0]"}},
		"less than nothing": {func(c *InitConfiguration) { c.BootstrapTokens[0].TTL = &metav1.Duration{Duration: -time.Hour} }, []string{"bootstrapTokens[0].ttl"}},
		"a short key":       {func(c *InitConfiguration) { c.CertificateKey = "abcdeX" }, []string{"certificateKey"}},
		"an unknown phase":  {func(c *InitConfiguration) { c.SkipPhases = []string{"certs", "etcd"} }, []string{"skipPhases[1]"}},
		"no time":           {func(c *InitConfiguration) { c.Timeout = &metav1.Duration{} }, []string{"timeout"}},
	} {
		c, _ := InitDefaults()
		tt.change(&c)
		got := c.Validate([]string{"certs"})
		if !slices.Equal(fields(got), tt.want) {
			t.Errorf("%s: %v, want %v", name, got.ToAggregate(), tt.want)
		}
		if len(got) > 0 && strings.Contains(got.ToAggregate().Error(), "abcdeX") {
			t.Errorf("%s: the error has the secret: %v", name, got.ToAggregate())
		}
	}
}

func TestValidateJoin(t *testing.T) {
	t.Parallel()
	further := func(c *JoinConfiguration) {
		c.Node, c.ControlPlane = nil, &ControlPlane{LocalEndpoint: LocalEndpoint{AdvertiseAddress: "192.0.2.11"}, CertificateKey: strings.Repeat("ab", 32)}
	}
	for name, tt := range map[string]struct {
		change func(*JoinConfiguration)
		want   []string
	}{
		"a node":           {func(*JoinConfiguration) {}, nil},
		"a control plane":  {further, nil},
		"both":             {func(c *JoinConfiguration) { n := c.Node; further(c); c.Node = n }, []string{"node"}},
		"a short key":      {func(c *JoinConfiguration) { further(c); c.ControlPlane.CertificateKey = "ab" }, []string{"controlPlane.certificateKey"}},
		"another database": {func(c *JoinConfiguration) { further(c); c.ControlPlane.DatabaseURL = "x" }, []string{"controlPlane.databaseURL"}},
		"nowhere":          {func(c *JoinConfiguration) { c.Discovery.BootstrapToken = nil }, []string{"discovery"}},
		"twice":            {func(c *JoinConfiguration) { c.Discovery.File = &FileDiscovery{} }, []string{"discovery.file"}},
		"by a file": {func(c *JoinConfiguration) {
			c.Discovery.BootstrapToken, c.Discovery.File = nil, &FileDiscovery{KubeConfigPath: "/x", Token: exampleToken}
		}, nil},
		"by an empty file":  {func(c *JoinConfiguration) { c.Discovery.BootstrapToken, c.Discovery.File = nil, &FileDiscovery{} }, []string{"discovery.file.kubeConfigPath", "discovery.file.token"}},
		"no token":          {func(c *JoinConfiguration) { c.Discovery.BootstrapToken.Token = "" }, []string{"discovery.bootstrapToken.token"}},
		"no hash":           {func(c *JoinConfiguration) { c.Discovery.BootstrapToken.CACertHashes = nil }, []string{"discovery.bootstrapToken.caCertHashes"}},
		"a bad hash":        {func(c *JoinConfiguration) { c.Discovery.BootstrapToken.CACertHashes = []string{"md5:x"} }, []string{"discovery.bootstrapToken.caCertHashes[0]"}},
		"a bad endpoint":    {func(c *JoinConfiguration) { c.Discovery.BootstrapToken.APIServerEndpoint = "x" }, []string{"discovery.bootstrapToken.apiServerEndpoint"}},
		"a relative folder": {func(c *JoinConfiguration) { c.Node.Folder = "x" }, []string{"node.folder"}},
	} {
		c := JoinDefaults()
		tt.change(&c)
		if got := c.Validate(); !slices.Equal(fields(got), tt.want) {
			t.Errorf("%s: %v, want %v", name, got.ToAggregate(), tt.want)
		}
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	local := LocalEndpoint{AdvertiseAddress: "2001:db8::1"}
	for endpoint, want := range map[string][2]string{
		"":                  {"[2001:db8::1]:6443", "[2001:db8::1]:7444"},
		"kube.example":      {"kube.example:6443", "kube.example:7444"},
		"kube.example:443":  {"kube.example:443", "kube.example:7444"},
		"[2001:db8::2]:443": {"[2001:db8::2]:443", "[2001:db8::2]:7444"},
		"2001:db8::2":       {"[2001:db8::2]:6443", "[2001:db8::2]:7444"},
	} {
		_, c := InitDefaults()
		c.ControlPlaneEndpoint = endpoint
		if got := [2]string{c.Endpoint(local), c.NodesEndpoint(local)}; got != want {
			t.Errorf("%q: %v, want %v", endpoint, got, want)
		}
	}
}
