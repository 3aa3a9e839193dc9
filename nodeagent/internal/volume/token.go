package volume

import (
	"context"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	defaultTokenSeconds = 3600
	maxTokenAge         = 24 * time.Hour
)

type tokenKey struct {
	uid      types.UID
	audience string
	seconds  int64
}

type token struct {
	value          string
	issued, expire time.Time
}

// stale reports whether a token is due for another: after four fifths of its
// life, or a day.
func (t token) stale(now time.Time) bool {
	life := t.expire.Sub(t.issued)
	return t.value == "" || now.After(t.issued.Add(life*4/5)) || now.Sub(t.issued) > maxTokenAge
}

func (m *Manager) tokenFile(ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection, fileMode os.FileMode) (Files, error) {
	seconds := int64(defaultTokenSeconds)
	if source.ExpirationSeconds != nil {
		seconds = *source.ExpirationSeconds
	}
	value, _, err := m.Token(ctx, pod, source.Audience, seconds)
	if err != nil {
		return nil, err
	}
	return Files{source.Path: owned(pod, []byte(value), fileMode)}, nil
}

// owned is a file for the pod's users alone where it says who they are.
func owned(pod *corev1.Pod, data []byte, fileMode os.FileMode) File {
	user := soleUser(pod)
	if user != nil || fsGroup(pod) != nil {
		fileMode = 0o600
	}
	return File{data, fileMode, user}
}

// Token returns a token of the pod's service account, another one in good time before it ends, and when it does.
func (m *Manager) Token(ctx context.Context, pod *corev1.Pod, audience string, seconds int64) (string, time.Time, error) {
	key := tokenKey{pod.UID, audience, seconds}
	m.mu.Lock()
	held := m.tokens[key]
	m.mu.Unlock()
	now := m.cfg.Clock.Now()
	if held.stale(now) {
		value, expires, err := m.cfg.Objects.Token(ctx, pod, audience, seconds)
		switch {
		case err == nil:
			held = token{value, now, expires}
		case held.value == "" || now.After(held.expire):
			return "", time.Time{}, err
		} // a token that is only due serves until the API answers again
		m.mu.Lock()
		m.tokens[key] = held
		m.mu.Unlock()
	}
	return held.value, held.expire, nil
}

// soleUser is the user that every container of the pod is said to run as; nil where one is not, or another. A token is that user's alone.
func soleUser(pod *corev1.Pod) *int64 {
	contexts := make([]*corev1.SecurityContext, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers)+len(pod.Spec.EphemeralContainers))
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			contexts = append(contexts, list[i].SecurityContext)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		contexts = append(contexts, pod.Spec.EphemeralContainers[i].SecurityContext)
	}
	var sole *int64
	for _, own := range contexts {
		user := runAs(pod, own)
		if user == nil || sole != nil && *sole != *user {
			return nil
		}
		sole = user
	}
	return sole
}

func runAs(pod *corev1.Pod, own *corev1.SecurityContext) *int64 {
	if own != nil && own.RunAsUser != nil {
		return own.RunAsUser
	}
	if all := pod.Spec.SecurityContext; all != nil {
		return all.RunAsUser
	}
	return nil
}
