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
	key := tokenKey{pod.UID, source.Audience, seconds}
	m.mu.Lock()
	held := m.tokens[key]
	m.mu.Unlock()
	now := m.cfg.Clock.Now()
	if held.stale(now) {
		value, expires, err := m.cfg.Objects.Token(ctx, pod, source.Audience, seconds)
		switch {
		case err == nil:
			held = token{value, now, expires}
		case held.value == "" || now.After(held.expire):
			return nil, err
		} // a token that is only due serves until the API answers again
		m.mu.Lock()
		m.tokens[key] = held
		m.mu.Unlock()
	}
	return Files{source.Path: {[]byte(held.value), fileMode}}, nil
}
