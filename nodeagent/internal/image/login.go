package image

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// login is one entry of a Docker configuration.
type login struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
}

// logins returns what the pod's secrets hold for the image's registry. A
// secret that is missing is passed over, as Kubernetes does.
func (p *Puller) logins(ctx context.Context, pod *corev1.Pod, name string) ([]*runtimeapi.AuthConfig, error) {
	var out []*runtimeapi.AuthConfig
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
		for server, entry := range entries {
			if matches(server, name) {
				out = append(out, &runtimeapi.AuthConfig{
					Username: entry.Username, Password: entry.Password, Auth: entry.Auth,
					IdentityToken: entry.IdentityToken, ServerAddress: server,
				})
			}
		}
	}
	return out, nil
}

func parse(secret *corev1.Secret) (map[string]login, error) {
	entries := map[string]login{}
	var err error
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		var config struct {
			Auths map[string]login `json:"auths"`
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
	for server, entry := range entries {
		if entry.Username == "" && entry.Auth != "" {
			raw, err := base64.StdEncoding.DecodeString(entry.Auth)
			if err != nil {
				return nil, errors.New("malformed Docker configuration")
			}
			entry.Username, entry.Password, _ = strings.Cut(string(raw), ":")
			entry.Auth = ""
			entries[server] = entry
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
