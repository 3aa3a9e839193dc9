package nodeagent

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestNodeAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1, fd00::1": "192.0.2.1 fd00::1", "fd00::1,192.0.2.1": "fd00::1 192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"": "", "node1": "", "192.0.2.1,192.0.2.2": "", "192.0.2.1,fd00::1,fd00::2": "",
	} {
		if _, err := parseNodeIP(text); (err == nil) != (want != "") {
			t.Errorf("%q: %v", text, err)
		} else if got := strings.Join(Config{NodeIP: text}.hostIPs(), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A machine's IPv6 address is the node's where its pods have some, and where it has no other.
func TestNodeTakesTheMachinesAddresses(t *testing.T) {
	t.Parallel()
	v4, v6 := netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd77::/56")
	for _, tt := range []struct {
		machine string
		network *Network
		want    string
	}{
		{"192.0.2.1 fd00::1", nil, "192.0.2.1"},
		{"192.0.2.1 fd00::1", &Network{PodCIDRs: []netip.Prefix{v4}}, "192.0.2.1"},
		{"192.0.2.1 fd00::1", &Network{PodCIDRs: []netip.Prefix{v4, v6}}, "192.0.2.1,fd00::1"},
		{"192.0.2.1", &Network{PodCIDRs: []netip.Prefix{v4, v6}}, "192.0.2.1"},
		{"fd00::1", &Network{PodCIDRs: []netip.Prefix{v4}}, "fd00::1"},
	} {
		if got, err := (Config{Network: tt.network}).nodeIPs(strings.Fields(tt.machine)); got != tt.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", tt.machine, got, err, tt.want)
		}
	}
}

func TestManagersOfAllPoliciesAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set      Managers
		want     string // of the error; "" is none
		reserved corev1.ResourceList
	}{
		"nothing set": {Managers{}, "", nil},
		"all of them": {Managers{
			CPUPolicy: "static", CPUOptions: map[string]string{"full-pcpus-only": "true"}, ReservedCPUs: "0,2-3", MemoryPolicy: "Static", ReservedMemory: []string{"0:memory=1Gi"},
			TopologyPolicy: "restricted", TopologyScope: "pod", TopologyOptions: map[string]string{"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "16"},
		}, "", nil},
		"a policy":                 {Managers{CPUPolicy: "dynamic"}, `CPU manager: "dynamic" is none of [none static]`, nil},
		"a scope":                  {Managers{TopologyScope: "node"}, `topology scope: "node" is none of [container pod]`, nil},
		"static without reserved":  {Managers{CPUPolicy: "static"}, "needs reserved CPUs", nil},
		"static beside reserved":   {Managers{CPUPolicy: "static"}, "", corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}},
		"options without static":   {Managers{CPUOptions: map[string]string{"full-pcpus-only": "true"}}, "are those of the policy static", nil},
		"CPUs":                     {Managers{ReservedCPUs: "a-b"}, "reserved CPUs: ", nil},
		"memory":                   {Managers{ReservedMemory: []string{"memory"}}, "is not NODE:KIND=SIZE", nil},
		"an option of topology":    {Managers{TopologyOptions: map[string]string{"max-allowable-numa-nodes": "3"}}, "it is from 8 to 64", nil},
		"no such option of theirs": {Managers{TopologyOptions: map[string]string{"x": "y"}}, "there is no such option", nil},
	} {
		err := c.set.complete().validate(c.reserved)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	reserved := Managers{ReservedCPUs: "0,2-3"}.reserved()
	if got := reserved.Cpu().Value(); got != 3 {
		t.Errorf("reserved: %d CPUs", got)
	}
}

func TestRestartDelaysAreChecked(t *testing.T) {
	t.Parallel()
	const problem = "the longest delay before a container starts again is from 1s to 5m0s"
	for period, ok := range map[time.Duration]bool{0: true, time.Second: true, time.Minute: true, 300 * time.Second: true, 999 * time.Millisecond: false, 301 * time.Second: false, -1: false} {
		if err := (Config{MaxContainerRestartPeriod: period}).validate(); strings.Contains(err.Error(), problem) == ok {
			t.Errorf("%v: %v", period, err)
		}
	}
}

// Who may use images, and who has logins for them, is checked with the rest.
func TestImagesAreChecked(t *testing.T) {
	t.Parallel()
	err := Config{
		VerifyImages: VerifyImages{Policy: "Sometimes", Allowlist: []string{"a.test/b:1"}}, CredentialProviders: CredentialProviders{Config: "/nowhere/config.yaml"},
	}.validate()
	for _, want := range []string{`"Sometimes" is none of`, "it has a tag or a digest", "the configuration and the folder of the plugins belong together", "node name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: without %q", err, want)
		}
	}
}
