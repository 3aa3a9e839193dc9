package webhook

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// FromKubeconfig reads where a webhook is, and who the apiserver is to it, from the current context of a kubeconfig file: the cluster
// is the webhook, the user the apiserver. Users by plugins and passwords are not supported.
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
	case user.Exec != nil || user.AuthProvider != nil || user.Username != "":
		return target, errors.New("only certificates and tokens are supported for the user of a webhook")
	}
	c := target.Client
	if c.Certificate, err = data(user.ClientCertificateData, user.ClientCertificate); err != nil {
		return target, err
	}
	if c.Key, err = data(user.ClientKeyData, user.ClientKey); err != nil {
		return target, err
	}
	token, err := data([]byte(user.Token), user.TokenFile)
	c.Token = string(token)
	return target, err
}

// data is what is given, or what the file has.
func data(given []byte, file string) ([]byte, error) {
	if len(given) > 0 || file == "" {
		return given, nil
	}
	return os.ReadFile(file)
}
