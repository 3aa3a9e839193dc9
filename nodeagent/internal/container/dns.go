package container

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// DNS is the content of a resolv.conf.
type DNS struct{ Servers, Searches, Options []string }

// ReadDNS parses a resolv.conf; a missing file is an empty one.
func ReadDNS(path string) (DNS, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return DNS{}, nil
	}
	if err != nil {
		return DNS{}, err
	}
	defer file.Close()
	var d DNS
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			d.Servers = append(d.Servers, fields[1])
		case "search":
			d.Searches = fields[1:]
		case "options":
			d.Options = append(d.Options, fields[1:]...)
		}
	}
	return d, scanner.Err()
}

// Limits of resolv.conf that Kubernetes keeps.
const (
	maxServers  = 3
	maxSearches = 32
)

func (b *Builder) dns() (*runtimeapi.DNSConfig, error) {
	policy := b.Pod.Spec.DNSPolicy
	if policy == corev1.DNSClusterFirst && b.Pod.Spec.HostNetwork {
		policy = corev1.DNSDefault
	}
	var d DNS
	switch policy {
	case corev1.DNSNone:
	case corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, "":
		if len(b.Node.ClusterDNS) == 0 {
			d = b.Node.HostDNS // no cluster DNS: fall back, as Kubernetes does
			break
		}
		d.Servers = b.Node.ClusterDNS
		if domain := b.Node.ClusterDomain; domain != "" {
			d.Searches = []string{b.Pod.Namespace + ".svc." + domain, "svc." + domain, domain}
		}
		d.Searches = append(d.Searches, b.Node.HostDNS.Searches...)
		d.Options = []string{"ndots:5"}
	case corev1.DNSDefault:
		d = b.Node.HostDNS
	default:
		return nil, fmt.Errorf("invalid DNSPolicy=%v", policy)
	}
	if own := b.Pod.Spec.DNSConfig; own != nil {
		d.Servers = unique(append(slices.Clone(d.Servers), own.Nameservers...))
		d.Searches = unique(append(slices.Clone(d.Searches), own.Searches...))
		d.Options = mergeOptions(d.Options, own.Options)
	}
	d.Servers = d.Servers[:min(len(d.Servers), maxServers)]
	d.Searches = d.Searches[:min(len(d.Searches), maxSearches)]
	return &runtimeapi.DNSConfig{Servers: d.Servers, Searches: d.Searches, Options: d.Options}, nil
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func mergeOptions(base []string, own []corev1.PodDNSConfigOption) []string {
	var out []string
	for _, o := range base {
		name, _, _ := strings.Cut(o, ":")
		if !slices.ContainsFunc(own, func(p corev1.PodDNSConfigOption) bool { return p.Name == name }) {
			out = append(out, o)
		}
	}
	for _, o := range own {
		if o.Value != nil && *o.Value != "" {
			out = append(out, o.Name+":"+*o.Value)
		} else {
			out = append(out, o.Name)
		}
	}
	return out
}

// maxHostname is how long a name the kernel takes.
const maxHostname = 64

// Hostname is the pod's name to itself.
func (b *Builder) Hostname() string {
	name, domain := b.names()
	if full := b.Pod.Spec.SetHostnameAsFQDN; full != nil && *full && domain != "" {
		return name + "." + domain
	}
	return name
}

// names are the pod's name and the domain that it is in; a name that overrides all others is in none.
func (b *Builder) names() (name, domain string) {
	if h := b.Pod.Spec.HostnameOverride; h != nil && *h != "" {
		return *h, ""
	}
	name = b.Pod.Spec.Hostname
	if name == "" {
		name = b.Pod.Name
	}
	if len(name) > 63 {
		name = strings.TrimRight(name[:63], "-.")
	}
	return name, b.domain()
}

func (b *Builder) domain() string {
	if b.Pod.Spec.Subdomain == "" {
		return ""
	}
	return b.Pod.Spec.Subdomain + "." + b.Pod.Namespace + ".svc." + b.Node.ClusterDomain
}

// Hosts is the content of the pod's /etc/hosts.
func (b *Builder) Hosts() (string, error) {
	var out strings.Builder
	if b.Pod.Spec.HostNetwork {
		raw, err := os.ReadFile(b.Node.HostsFile)
		if err != nil {
			return "", err
		}
		out.WriteString("# Kubernetes-managed hosts file (host network).\n")
		out.Write(raw)
	} else {
		out.WriteString("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
			"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
		name, domain := b.names()
		for _, ip := range b.Status.PodIPs {
			if domain != "" {
				fmt.Fprintf(&out, "%s\t%s.%s\t%s\n", ip.IP, name, domain, name)
			} else {
				fmt.Fprintf(&out, "%s\t%s\n", ip.IP, name)
			}
		}
	}
	if len(b.Pod.Spec.HostAliases) > 0 {
		out.WriteString("\n# Entries added by HostAliases.\n")
		for _, alias := range b.Pod.Spec.HostAliases {
			fmt.Fprintf(&out, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
		}
	}
	return out.String(), nil
}

// writeHosts writes the file that all containers of the pod share.
func (b *Builder) writeHosts() (string, error) {
	content, err := b.Hosts()
	if err != nil {
		return "", err
	}
	path := filepath.Join(PodDir(b.Node.RootDir, b.Pod), "etc-hosts")
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", err
	}
	// In place: running containers have this very file mounted.
	if old, err := os.ReadFile(path); err == nil && string(old) == content {
		return path, nil
	}
	return path, os.WriteFile(path, []byte(content), 0o644)
}
