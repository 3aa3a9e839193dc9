package image

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/distribution/reference"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/verify"
)

// entry is one of a Docker configuration.
type entry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
}

// hash stands for the entry in records.
func (e entry) hash() string {
	raw, err := json.Marshal(e)
	if err != nil {
		return "" // proves nothing
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// login is what a pod can show to a registry, and whose it is.
type login struct {
	auth   *runtimeapi.AuthConfig
	source verify.Source
}

// loginsOnce looks the pod's logins up when they are asked for, and once.
func (p *Puller) loginsOnce(ctx context.Context, pod *corev1.Pod, name string) func() ([]login, error) {
	return sync.OnceValues(func() ([]login, error) { return p.logins(ctx, pod, name) })
}

// logins returns what the pod's secrets hold for the image's registry, of each the most particular ones first. A
// secret that is missing is passed over, as Kubernetes does.
func (p *Puller) logins(ctx context.Context, pod *corev1.Pod, name string) ([]login, error) {
	var out []login
	for _, ref := range pod.Spec.ImagePullSecrets {
		secret, err := p.secrets.Secret(ctx, pod.Namespace, ref.Name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries, err := parse(secret)
		if err != nil {
			return nil, fmt.Errorf("pull secret %s: %w", ref.Name, err)
		}
		for _, server := range slices.Backward(slices.Sorted(maps.Keys(entries))) {
			if !matches(server, name) {
				continue
			}
			e := entries[server]
			out = append(out, login{
				// Without the server: a runtime compares it with the host that it asks, letter by letter, and takes what is no URL for another one.
				&runtimeapi.AuthConfig{Username: e.Username, Password: e.Password, Auth: e.Auth, IdentityToken: e.IdentityToken},
				verify.Source{Kind: verify.KindSecret, Namespace: pod.Namespace, Name: secret.Name, UID: string(secret.UID), Hash: e.hash()},
			})
		}
	}
	return out, nil
}

// nodeLogins are those of the node's credential providers. What is pulled with one is for all pods of the node.
func (p *Puller) nodeLogins(ctx context.Context, name string) []login {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil || p.providers == nil {
		return nil
	}
	var out []login
	for _, l := range p.providers.Logins(ctx, named.Name()) {
		out = append(out, login{auth: &runtimeapi.AuthConfig{Username: l.Username, Password: l.Password}})
	}
	return out
}

func parse(secret *corev1.Secret) (map[string]entry, error) {
	entries := map[string]entry{}
	var err error
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		var config struct {
			Auths map[string]entry `json:"auths"`
		}
		err = json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &config)
		entries = config.Auths
	case corev1.SecretTypeDockercfg:
		err = json.Unmarshal(secret.Data[corev1.DockerConfigKey], &entries)
	default:
		return nil, fmt.Errorf("secret of type %q holds no registry login", secret.Type)
	}
	if err != nil {
		return nil, errors.New("malformed Docker configuration") // the cause may quote the password
	}
	for server, e := range entries {
		if e.Username == "" && e.Auth != "" {
			raw, err := base64.StdEncoding.DecodeString(e.Auth)
			if err != nil {
				return nil, errors.New("malformed Docker configuration")
			}
			e.Username, e.Password, _ = strings.Cut(string(raw), ":")
			e.Auth = ""
			entries[server] = e
		}
	}
	return entries, nil
}

// matches reports whether a configured server, perhaps with scheme and path,
// is the image's registry.
func matches(server, name string) bool {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return false
	}
	server = strings.TrimPrefix(strings.TrimPrefix(server, "https://"), "http://")
	host, path, _ := strings.Cut(strings.TrimSuffix(server, "/"), "/")
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		host = "docker.io"
	}
	if path == "v1" || path == "v2" {
		path = ""
	}
	if !matchHost(host, reference.Domain(named)) {
		return false
	}
	repository := reference.Path(named)
	return path == "" || repository == path || strings.HasPrefix(repository, path+"/")
}

// matchHost lets each part of a host be "*".
func matchHost(pattern, host string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != "*" && want[i] != have[i] {
			return false
		}
	}
	return true
}

// plain drops the gRPC wrapping from an error of the runtime, whose text
// people read.
func plain(err error) error {
	if s, ok := status.FromError(err); ok {
		return errors.New("rpc error: code = " + s.Code().String() + " desc = " + s.Message())
	}
	return err
}

// said is why a pull failed, as people read it. A code is part of it where the runtime gave one.
func said(err error) error {
	if s, ok := status.FromError(err); ok && s.Code() == codes.Unknown {
		return errors.New(s.Message())
	}
	return plain(err)
}
