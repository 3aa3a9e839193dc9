package webhook

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// FromKubeconfig reads where a webhook is, and who the apiserver is to it, from the current context of a kubeconfig file: the cluster
// is the webhook, the user the apiserver. Users by plugins are not supported.
func FromKubeconfig(path string) (Target, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return Target{}, fmt.Errorf("kubeconfig of a webhook: %w", err)
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return Target{}, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	target, err := fromConfig(config)
	if err != nil {
		return Target{}, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	if _, err := target.url(); err != nil {
		return Target{}, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return target, nil
}

func fromConfig(config *clientcmdapi.Config) (target Target, err error) {
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return target, fmt.Errorf("the current context %q is not there", config.CurrentContext)
	}
	cluster := config.Clusters[context.Cluster]
	if cluster == nil {
		return target, fmt.Errorf("cluster %q is not there", context.Cluster)
	}
	if cluster.InsecureSkipTLSVerify {
		return target, errors.New("insecure-skip-tls-verify is not supported for webhooks")
	}
	target = Target{URL: cluster.Server, Client: &Client{ServerName: cluster.TLSServerName}}
	if target.CABundle, err = data(cluster.CertificateAuthorityData, cluster.CertificateAuthority); err != nil {
		return target, err
	}
	user := config.AuthInfos[context.AuthInfo]
	switch {
	case user == nil && context.AuthInfo != "":
		return target, fmt.Errorf("user %q is not there", context.AuthInfo)
	case user == nil:
		return target, nil
	}
	return target, target.Client.fill(user)
}

// fill makes the client that of a kubeconfig's user.
func (c *Client) fill(user *clientcmdapi.AuthInfo) (err error) {
	if user.Exec != nil || user.AuthProvider != nil || user.Impersonate != "" || len(user.ImpersonateGroups) > 0 {
		return errors.New("only certificates, tokens and passwords are supported for the user of a webhook")
	}
	if c.Certificate, err = data(user.ClientCertificateData, user.ClientCertificate); err != nil {
		return err
	}
	if c.Key, err = data(user.ClientKeyData, user.ClientKey); err != nil {
		return err
	}
	if len(c.Certificate) > 0 {
		if _, err := tls.X509KeyPair(c.Certificate, c.Key); err != nil {
			return fmt.Errorf("client certificate of a webhook: %w", err)
		}
	}
	token, err := data([]byte(user.Token), user.TokenFile)
	c.Token, c.Username, c.Password = strings.TrimSpace(string(token)), user.Username, user.Password
	return err
}

// data is what is given, or what the file has.
func data(given []byte, file string) ([]byte, error) {
	if len(given) > 0 || file == "" {
		return given, nil
	}
	return os.ReadFile(file)
}
