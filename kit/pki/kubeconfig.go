package pki

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig returns a kubeconfig, as YAML, for a user who reaches the
// gateway at server with a certificate. Everything is embedded, so the file
// may be moved.
func Kubeconfig(server string, ca []byte, user string, pair Pair) ([]byte, error) {
	config := api.NewConfig()
	config.Clusters["howdah"] = &api.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &api.AuthInfo{ClientCertificateData: pair.Certificate, ClientKeyData: pair.Key}
	config.Contexts["howdah"] = &api.Context{Cluster: "howdah", AuthInfo: user, Namespace: "default"}
	config.CurrentContext = "howdah"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	return data, nil
}
