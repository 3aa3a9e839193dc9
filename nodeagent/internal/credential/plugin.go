package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	kubeletv1 "k8s.io/kubelet/config/v1"
	providerv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

const (
	// deadline of one question.
	deadline = time.Minute
	// mostAnswer and mostComplaint bound what a plugin may write.
	mostAnswer    = 1 << 20
	mostComplaint = 1 << 10
)

// plugin is a program.
type plugin struct {
	path    string
	args    []string
	env     []string
	codecs  runtime.Decoder
	timeout time.Duration
}

// environment is what a plugin gets: the agent's own but its settings, and what the configuration adds.
func environment(agent []string, add []kubeletv1.ExecEnvVar) []string {
	out := slices.DeleteFunc(slices.Clone(agent), func(v string) bool { return strings.HasPrefix(v, "HOWDAH_") })
	for _, v := range add {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

// ask runs the plugin for an image. No error quotes what it has answered: that may be a password. What it writes to stderr is for people.
func (p plugin) ask(ctx context.Context, image string) (*providerv1.CredentialProviderResponse, error) {
	request := providerv1.CredentialProviderRequest{Image: image}
	request.APIVersion, request.Kind = providerv1.SchemeGroupVersion.String(), "CredentialProviderRequest"
	question, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, complaint := &bounded{most: mostAnswer}, &bounded{most: mostComplaint}
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.env, bytes.NewReader(question), answer, complaint
	cmd.WaitDelay = time.Second // a child of it may hold the pipes
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it did not answer within %v: %w", p.timeout, ctx.Err())
		}
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.data.String()))
	}
	if answer.over {
		return nil, fmt.Errorf("it answered with more than %d bytes", mostAnswer)
	}
	object, _, err := p.codecs.Decode(answer.data.Bytes(), nil, nil)
	if err != nil {
		return nil, errors.New("its answer cannot be read")
	}
	response, ok := object.(*providerv1.CredentialProviderResponse)
	if !ok {
		return nil, fmt.Errorf("its answer is no CredentialProviderResponse of %s", providerv1.SchemeGroupVersion)
	}
	switch response.CacheKeyType {
	case providerv1.ImagePluginCacheKeyType, providerv1.RegistryPluginCacheKeyType, providerv1.GlobalPluginCacheKeyType:
		return response, nil
	}
	return nil, errors.New("its answer's cacheKeyType is none of Image, Registry, Global")
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	data bytes.Buffer
	most int
	over bool
}

func (b *bounded) Write(data []byte) (int, error) {
	room := max(0, b.most-b.data.Len())
	b.over = b.over || len(data) > room
	b.data.Write(data[:min(room, len(data))])
	return len(data), nil
}
