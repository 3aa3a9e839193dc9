package clusterfile

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/cmd/howdah/internal/sealed"
)

// Flags says what the settings of a control plane may be.
type Flags interface {
	// CheckSetting says what is wrong with a flag of howdah standalone and its value.
	CheckSetting(flag, value string) error
}

// Managed are flags of howdah standalone that the configuration has fields for, or that howdah init sets by itself.
var Managed = []string{
	"database-url", "listen", "node-listen", "dir", "join-server", "node-apiserver", "gateway-names", "gateway-endpoints", "apiserver-name", "cluster-cidr",
	"service-cidr", "cluster-domain", "config", "help",
}

// Validate reports all that is wrong with a completed InitConfiguration.
func (c *InitConfiguration) Validate(phases []string) field.ErrorList {
	all := c.Machine.validate(field.NewPath("machine"))
	all = append(all, c.LocalEndpoint.validate(field.NewPath("localAPIEndpoint"))...)
	for i, t := range c.BootstrapTokens {
		all = append(all, t.validate(field.NewPath("bootstrapTokens").Index(i))...)
	}
	all = append(all, certificateKey(field.NewPath("certificateKey"), c.CertificateKey)...)
	for i, name := range c.SkipPhases {
		if !slices.Contains(phases, name) {
			all = append(all, field.NotSupported(field.NewPath("skipPhases").Index(i), name, phases))
		}
	}
	return append(all, positive(field.NewPath("timeout"), c.Timeout.Duration)...)
}

func (t BootstrapToken) validate(at *field.Path) field.ErrorList {
	var all field.ErrorList
	if t.Token != "" {
		if _, err := bootstrap.ParseToken(t.Token); err != nil {
			all = append(all, field.Invalid(at.Child("token"), "<hidden>", err.Error()))
		}
	}
	if t.TTL.Duration < 0 {
		all = append(all, field.Invalid(at.Child("ttl"), t.TTL.Duration.String(), "must not be negative"))
	}
	if err := (bootstrap.Grant{Usages: t.Usages, Groups: t.Groups}).Validate(); err != nil {
		all = append(all, field.Invalid(at, "<hidden>", strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return all
}

func (m Machine) validate(at *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(m.Name) {
		all = append(all, field.Invalid(at.Child("name"), m.Name, problem))
	}
	if managers := []string{AutoServices, Systemd, Process}; !slices.Contains(managers, m.ServiceManager) {
		all = append(all, field.NotSupported(at.Child("serviceManager"), m.ServiceManager, managers))
	}
	if !strings.HasPrefix(m.Binary, "/") || strings.ContainsAny(m.Binary, " \t\n%\"'\\") {
		all = append(all, field.Invalid(at.Child("binary"), m.Binary, "must be an absolute path without spaces, quotes or %"))
	}
	return all
}

func (e LocalEndpoint) validate(at *field.Path) field.ErrorList {
	var all field.ErrorList
	if a, err := netip.ParseAddr(e.AdvertiseAddress); err != nil || a.IsUnspecified() || a.IsLoopback() {
		all = append(all, field.Invalid(at.Child("advertiseAddress"), e.AdvertiseAddress, "must be an address by which others reach this machine"))
	}
	if _, err := netip.ParseAddr(e.BindAddress); e.BindAddress != "" && err != nil {
		all = append(all, field.Invalid(at.Child("bindAddress"), e.BindAddress, "must be an address, or empty"))
	}
	return all
}

func certificateKey(at *field.Path, text string) field.ErrorList {
	if text == "" {
		return nil
	}
	if _, err := sealed.ParseKey(text); err != nil {
		return field.ErrorList{field.Invalid(at, "<hidden>", err.Error())}
	}
	return nil
}

func positive(at *field.Path, d time.Duration) field.ErrorList {
	if d > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, d.String(), "must be more than nothing")}
}

// Validate reports all that is wrong with a completed ClusterConfiguration.
func (c *ClusterConfiguration) Validate(flags Flags) field.ErrorList {
	all := c.Database.validate(field.NewPath("database"))
	if c.ControlPlaneEndpoint != "" {
		all = append(all, endpoint(field.NewPath("controlPlaneEndpoint"), c.ControlPlaneEndpoint)...)
	}
	for i, name := range c.CertSANs {
		if _, err := netip.ParseAddr(name); err != nil && len(validation.IsDNS1123Subdomain(name)) > 0 {
			all = append(all, field.Invalid(field.NewPath("certSANs").Index(i), name, "must be an address or a DNS name"))
		}
	}
	all = append(all, c.Networking.validate(field.NewPath("networking"))...)
	ports := field.NewPath("ports")
	for name, port := range map[string]int32{"api": c.Ports.API, "nodes": c.Ports.Nodes} {
		for _, problem := range validation.IsValidPortNum(int(port)) {
			all = append(all, field.Invalid(ports.Child(name), port, problem))
		}
	}
	if c.Ports.API == c.Ports.Nodes {
		all = append(all, field.Duplicate(ports.Child("nodes"), c.Ports.Nodes))
	}
	all = append(all, c.dns(field.NewPath("dns"))...)
	settings := field.NewPath("settings")
	for flag, value := range c.Settings {
		if slices.Contains(Managed, flag) {
			all = append(all, field.Forbidden(settings.Key(flag), "the configuration has a field for it"))
		} else if err := flags.CheckSetting(flag, value); err != nil {
			all = append(all, field.Invalid(settings.Key(flag), value, err.Error()))
		}
	}
	slices.SortStableFunc(all, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return all
}

func (d Database) validate(at *field.Path) field.ErrorList {
	if d.URL == "" {
		return field.ErrorList{field.Required(at.Child("url"), "postgres://USER:PASSWORD@HOST/DATABASE: the cluster's state is in PostgreSQL")}
	}
	u, err := url.Parse(d.URL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return field.ErrorList{field.Invalid(at.Child("url"), "<hidden>", "must be of the form postgres://USER:PASSWORD@HOST/DATABASE")}
	}
	if strings.ContainsAny(d.URL, "'\n\r") {
		return field.ErrorList{field.Invalid(at.Child("url"), "<hidden>", "must not have a quote (write %27) or more than a line")}
	}
	return nil
}

func (n Networking) validate(at *field.Path) field.ErrorList {
	var all field.ErrorList
	if len(n.ServiceSubnets) > 2 {
		all = append(all, field.TooMany(at.Child("serviceSubnets"), len(n.ServiceSubnets), 2))
	}
	var ranges []netip.Prefix
	for i, text := range n.ServiceSubnets {
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			all = append(all, field.Invalid(at.Child("serviceSubnets").Index(i), text, err.Error()))
		case p.Addr().BitLen()-p.Bits() < 4:
			all = append(all, field.Invalid(at.Child("serviceSubnets").Index(i), text, "must have at least 16 addresses"))
		default:
			ranges = append(ranges, p)
		}
	}
	if len(ranges) == 2 && ranges[0].Addr().Is6() == ranges[1].Addr().Is6() {
		all = append(all, field.Invalid(at.Child("serviceSubnets"), n.ServiceSubnets, "must be of different IP families"))
	}
	pods, err := netip.ParsePrefix(n.PodSubnet)
	if err != nil {
		all = append(all, field.Invalid(at.Child("podSubnet"), n.PodSubnet, err.Error()))
	}
	for _, p := range ranges {
		if err == nil && p.Overlaps(pods) {
			all = append(all, field.Invalid(at.Child("podSubnet"), n.PodSubnet, fmt.Sprintf("must not overlap with the service subnet %s", p)))
		}
	}
	for _, problem := range validation.IsDNS1123Subdomain(n.DNSDomain) {
		all = append(all, field.Invalid(at.Child("dnsDomain"), n.DNSDomain, problem))
	}
	return all
}

func (c *ClusterConfiguration) dns(at *field.Path) field.ErrorList {
	var all field.ErrorList
	if _, err := netip.ParseAddr(c.DNS.Address); c.DNS.Address != "" && err != nil {
		all = append(all, field.Invalid(at.Child("address"), c.DNS.Address, "must be an address"))
	}
	ip, err := netip.ParseAddr(c.DNS.ClusterIP)
	if err != nil {
		return append(all, field.Invalid(at.Child("clusterIP"), c.DNS.ClusterIP, "must be an address"))
	}
	if first, err := netip.ParsePrefix(c.Networking.ServiceSubnets[0]); err == nil && !first.Contains(ip) {
		all = append(all, field.Invalid(at.Child("clusterIP"), c.DNS.ClusterIP, "must be of the first service subnet"))
	}
	return all
}

func endpoint(at *field.Path, text string) field.ErrorList {
	host := text
	if h, port, err := net.SplitHostPort(text); err == nil {
		host = h
		n, err := strconv.Atoi(port)
		if err != nil || len(validation.IsValidPortNum(n)) > 0 {
			return field.ErrorList{field.Invalid(at, text, "the port is none")}
		}
	}
	if _, err := netip.ParseAddr(host); err != nil && len(validation.IsDNS1123Subdomain(host)) > 0 {
		return field.ErrorList{field.Invalid(at, text, "must be a DNS name or an address, with or without a port")}
	}
	return nil
}

// Validate reports all that is wrong with a completed JoinConfiguration.
func (c *JoinConfiguration) Validate() field.ErrorList {
	all := c.Machine.validate(field.NewPath("machine"))
	all = append(all, c.Discovery.validate(field.NewPath("discovery"))...)
	all = append(all, positive(field.NewPath("timeout"), c.Timeout.Duration)...)
	if c.ControlPlane == nil {
		if !strings.HasPrefix(c.Node.Folder, "/") {
			all = append(all, field.Invalid(field.NewPath("node", "folder"), c.Node.Folder, "must be an absolute path"))
		}
		return all
	}
	if c.Node != nil {
		all = append(all, field.Forbidden(field.NewPath("node"), "a control plane is no node; howdah join without controlPlane makes the machine one, too"))
	}
	at := field.NewPath("controlPlane")
	all = append(all, c.ControlPlane.LocalEndpoint.validate(at.Child("localAPIEndpoint"))...)
	all = append(all, certificateKey(at.Child("certificateKey"), c.ControlPlane.CertificateKey)...)
	if c.ControlPlane.DatabaseURL != "" {
		for _, e := range (Database{URL: c.ControlPlane.DatabaseURL}).validate(at) {
			e.Field = at.Child("databaseURL").String()
			all = append(all, e)
		}
	}
	return all
}

func (d Discovery) validate(at *field.Path) field.ErrorList {
	all := field.ErrorList{}
	if d.Timeout.Duration < 0 {
		all = append(all, field.Invalid(at.Child("timeout"), d.Timeout.Duration.String(), "must not be negative"))
	}
	switch {
	case d.BootstrapToken == nil && d.File == nil:
		return append(all, field.Required(at, "bootstrapToken or file"))
	case d.BootstrapToken != nil && d.File != nil:
		return append(all, field.Forbidden(at.Child("file"), "may not be set beside bootstrapToken"))
	case d.File != nil:
		if d.File.KubeConfigPath == "" {
			all = append(all, field.Required(at.Child("file", "kubeConfigPath"), ""))
		}
		return append(all, token(at.Child("file", "token"), d.File.Token)...)
	}
	t, at := d.BootstrapToken, at.Child("bootstrapToken")
	if host, port, err := net.SplitHostPort(t.APIServerEndpoint); err != nil || host == "" || port == "" {
		all = append(all, field.Invalid(at.Child("apiServerEndpoint"), t.APIServerEndpoint, "must be host:port of a gateway"))
	}
	all = append(all, token(at.Child("token"), t.Token)...)
	for i, pin := range t.CACertHashes {
		if err := bootstrap.CheckPinForm(pin); err != nil {
			all = append(all, field.Invalid(at.Child("caCertHashes").Index(i), pin, err.Error()))
		}
	}
	if len(t.CACertHashes) == 0 && !t.UnsafeSkipCAVerification {
		all = append(all, field.Required(at.Child("caCertHashes"), "or unsafeSkipCAVerification: then whoever has the token can play the cluster"))
	}
	return all
}

func token(at *field.Path, text string) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(at, "howdah token create")}
	}
	if _, err := bootstrap.ParseToken(text); err != nil {
		return field.ErrorList{field.Invalid(at, "<hidden>", err.Error())}
	}
	return nil
}
