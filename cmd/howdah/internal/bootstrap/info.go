package bootstrap

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const (
	// InfoName is the ConfigMap of kube-public that everybody may read. InfoKey of it is a kubeconfig without a user, and SignaturePrefix with a token's id
	// is its signature by that token.
	InfoName        = "cluster-info"
	InfoKey         = "kubeconfig"
	SignaturePrefix = "jws-kubeconfig-"
)

// Info is what a machine has to know of a cluster to reach it.
type Info struct {
	Server string // the gateway's URL
	CA     []byte // the cluster's authorities, PEM
}

// Kubeconfig is the content of InfoKey.
func (i Info) Kubeconfig() (string, error) {
	config := api.NewConfig()
	config.Clusters[""] = &api.Cluster{Server: i.Server, CertificateAuthorityData: i.CA}
	data, err := clientcmd.Write(*config)
	return string(data), err
}

// ParseInfo reads the content of InfoKey, or a file of that form.
func ParseInfo(text string) (Info, error) {
	config, err := clientcmd.Load([]byte(text))
	if err != nil {
		return Info{}, fmt.Errorf("it is no kubeconfig: %w", err)
	}
	cluster := config.Clusters[""]
	if c, ok := config.Contexts[config.CurrentContext]; ok {
		cluster = config.Clusters[c.Cluster]
	}
	if cluster == nil && len(config.Clusters) == 1 {
		for _, only := range config.Clusters {
			cluster = only
		}
	}
	switch {
	case cluster == nil:
		return Info{}, errors.New("the kubeconfig does not say which cluster")
	case cluster.Server == "":
		return Info{}, errors.New("the kubeconfig names no server")
	case len(cluster.CertificateAuthorityData) == 0:
		return Info{}, errors.New("the kubeconfig has no certificate-authority-data")
	}
	return Info{cluster.Server, cluster.CertificateAuthorityData}, nil
}

// CheckSignature says whether a token has signed the content: a JSON Web Signature (RFC 7515) with HMAC-SHA256, without its payload.
func CheckSignature(content, signature string, by Token) error {
	header, mac, ok := strings.Cut(signature, "..")
	if !ok {
		return errors.New("it is no JSON Web Signature without payload")
	}
	text, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		return fmt.Errorf("the signature's header: %w", err)
	}
	var head struct{ Alg, Kid string }
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("the signature's header: %w", err)
	}
	if head.Alg != "HS256" || head.Kid != by.ID {
		return fmt.Errorf("it is signed by %q with %s", head.Kid, head.Alg)
	}
	got, err := base64.RawURLEncoding.DecodeString(mac)
	if err != nil {
		return fmt.Errorf("the signature: %w", err)
	}
	want := hmac.New(sha256.New, []byte(by.Secret))
	want.Write([]byte(header + "." + base64.RawURLEncoding.EncodeToString([]byte(content))))
	if !hmac.Equal(got, want.Sum(nil)) {
		return errors.New("it is not signed with this token")
	}
	return nil
}

// Authorities reads certificates in PEM.
func Authorities(data []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("there is no certificate")
	}
	return out, nil
}

// Pin is the hash of a certificate's public key, as --discovery-token-ca-cert-hash has it.
func Pin(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// CheckPins says whether authorities, PEM, have a pinned key among them. Their form has been checked.
func CheckPins(ca []byte, pins []string) error {
	certificates, err := Authorities(ca)
	if err != nil {
		return fmt.Errorf("the cluster's authority: %w", err)
	}
	for _, c := range certificates {
		if slices.ContainsFunc(pins, func(pin string) bool { return strings.EqualFold(pin, Pin(c)) }) {
			return nil
		}
	}
	return fmt.Errorf("the cluster's authority is %s, which is none of those given", Pin(certificates[0]))
}

// CheckPinForm says what is wrong with the text of a pin.
func CheckPinForm(pin string) error {
	hash, ok := strings.CutPrefix(strings.ToLower(pin), "sha256:")
	sum, err := hex.DecodeString(hash)
	if !ok || err != nil || len(sum) != sha256.Size {
		return fmt.Errorf("%q is not sha256: and 64 hexadecimal digits", pin)
	}
	return nil
}

// JoinCommand is what to run on a machine that is to become a node.
func (i Info) JoinCommand(token Token) (string, error) {
	authorities, err := Authorities(i.CA)
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("howdah join %s --token %s", strings.TrimPrefix(i.Server, "https://"), token)
	for _, a := range authorities {
		line += " --discovery-token-ca-cert-hash " + Pin(a)
	}
	return line, nil
}
