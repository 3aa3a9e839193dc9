package webhook

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
)

// Identities are whom an apiserver is to its webhooks, by their hosts. A nil one is nobody to any of them.
type Identities struct {
	byHost map[string]*Client
	// current is the user of the current context: whom it is to those that no entry names.
	current *Client
}

// ReadIdentities reads the users of a kubeconfig file once. A user's name is the host of the webhooks it is for, as in "hook.example.com" or
// "hook.ns.svc", with the port where that is not 443; "*.example.com" is for all hosts below, and "*" for all.
func ReadIdentities(path string) (*Identities, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of webhooks: %w", err)
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	i := &Identities{byHost: map[string]*Client{}}
	for name, user := range config.AuthInfos {
		c := &Client{}
		if err := c.fill(user); err != nil {
			return nil, fmt.Errorf("kubeconfig %s: user %q: %w", path, name, err)
		}
		i.byHost[name] = c
	}
	if context := config.Contexts[config.CurrentContext]; context != nil {
		i.current = i.byHost[context.AuthInfo]
	}
	return i, nil
}

// For returns whom the apiserver is to a webhook; nil is nobody. The most exact name wins.
func (i *Identities) For(t *Target) *Client {
	if i == nil {
		return nil
	}
	host := t.address()
	if c := i.match(host); c != nil {
		return c
	}
	if name, port, err := net.SplitHostPort(host); err == nil && port == "443" {
		if c := i.match(name); c != nil {
			return c
		}
	}
	if c := i.byHost["*"]; c != nil {
		return c
	}
	return i.current
}

// match finds the name itself, or the longest pattern for it.
func (i *Identities) match(host string) *Client {
	if c := i.byHost[host]; c != nil {
		return c
	}
	for rest := host; ; {
		_, parent, found := strings.Cut(rest, ".")
		if !found {
			return nil
		}
		if c := i.byHost["*."+parent]; c != nil {
			return c
		}
		rest = parent
	}
}

// address is the host of a target; the port belongs to a Service always, and to a URL that has one.
func (t *Target) address() string {
	if s := t.Service; s != nil {
		port := s.Port
		if port == 0 {
			port = 443
		}
		return net.JoinHostPort(s.host(), strconv.Itoa(int(port)))
	}
	to, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	return to.Host
}
