package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"howdah.dev/kit/wholefile"
)

const (
	// DefaultDataDir keeps the ledger; it has to outlive the node's container.
	DefaultDataDir = "/var/lib/cni/howdah"
	// DefaultConfigFile is where containerd looks first.
	DefaultConfigFile = "/etc/cni/net.d/10-howdah.conflist"
	networkName       = "howdah"
	pluginType        = "howdah"
)

// Config is what the node agent knows and the plugin needs.
type Config struct {
	// PodCIDRs of this node: at most one a family.
	PodCIDRs []netip.Prefix
	// MTU of the pods' interfaces: that of the uplink.
	MTU int
	// DataDir for the ledger; default DefaultDataDir.
	DataDir string
}

// conf is the plugin's part of the network configuration, as it comes by standard input.
type conf struct {
	types.PluginConf
	PodCIDRs []string `json:"podCIDRs"`
	MTU      int      `json:"mtu"`
	DataDir  string   `json:"dataDir"`

	RuntimeConfig struct {
		PortMappings []json.RawMessage `json:"portMappings"`
	} `json:"runtimeConfig"`

	prefixes []netip.Prefix
}

// decode reads the configuration. It is all that DEL and GC need: what a bad configuration kept from being added
// must still be removable. The error is a CNI error.
func decode(data []byte) (*conf, error) {
	var c conf
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "network configuration is not valid JSON", err.Error())
	}
	if c.DataDir == "" {
		c.DataDir = DefaultDataDir
	}
	return &c, nil
}

// parse decodes and checks the configuration. The error is a CNI error.
func parse(data []byte) (*conf, error) {
	c, err := decode(data)
	if err != nil {
		return nil, err
	}
	if c.RawPrevResult != nil {
		if err := version.ParsePrevResult(&c.PluginConf); err != nil {
			return nil, types.NewError(types.ErrDecodingFailure, "prevResult cannot be read", err.Error())
		}
	}
	prefixes, err := prefixesOf(c.PodCIDRs)
	if err != nil {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, err.Error(), "")
	}
	c.prefixes = prefixes
	if c.MTU < 576 {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("mtu is %d, want at least 576", c.MTU), "")
	}
	if len(c.RuntimeConfig.PortMappings) > 0 {
		return nil, types.NewError(types.ErrUnsupportedField, "portMappings are not this plugin's: hostPorts are served by the node agent's load balancer", "")
	}
	return c, nil
}

func prefixesOf(list []string) ([]netip.Prefix, error) {
	if len(list) == 0 {
		return nil, errors.New("podCIDRs is empty")
	}
	var out []netip.Prefix
	v4, v6 := 0, 0
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("podCIDRs: %w", err)
		}
		if p.Addr().Is4() {
			v4++
		} else {
			v6++
		}
		if p.Addr().BitLen()-p.Bits() < 2 {
			return nil, fmt.Errorf("podCIDRs: %s has no room for pods", p)
		}
		out = append(out, p.Masked())
	}
	if v4 > 1 || v6 > 1 {
		return nil, fmt.Errorf("podCIDRs: more than one of a family in %v", list)
	}
	return out, nil
}

// WriteConfig writes the network configuration list to file, whole or not at all, unless it is there already.
// containerd reports the node's network as ready once the file exists.
func WriteConfig(file string, c Config) error {
	cidrs := make([]string, len(c.PodCIDRs))
	for i, p := range c.PodCIDRs {
		cidrs[i] = p.String()
	}
	if _, err := prefixesOf(cidrs); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	if c.DataDir == "" {
		c.DataDir = DefaultDataDir
	}
	data, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.1.0",
		"name":       networkName,
		"plugins": []any{map[string]any{
			"type":     pluginType,
			"podCIDRs": cidrs,
			"mtu":      c.MTU,
			"dataDir":  c.DataDir,
		}},
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	data = append(data, '\n')
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	if err := wholefile.Write(file, data, 0o644); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	return nil
}
