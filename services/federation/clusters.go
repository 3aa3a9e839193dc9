package federation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	"howdah.dev/services/federation/api"
	"howdah.dev/services/federation/internal/carry"
	"howdah.dev/services/federation/internal/member"
)

// clusterChanged asks for what follows from a change of a cluster.
func (l *life) clusterChanged(old, c *api.Cluster) {
	if old == nil || c == nil || old.UID != c.UID {
		select {
		case l.reset <- struct{}{}:
		default:
		}
	}
	name := ""
	if c != nil {
		name = c.Name
		if m := l.member(name); m != nil && (old == nil || old.Generation != c.Generation || (old.DeletionTimestamp == nil) != (c.DeletionTimestamp == nil)) {
			m.nudge()
		}
	}
	if old != nil && c != nil && old.UID == c.UID && !matters(old, c) {
		return
	}
	for _, p := range l.allPlacements() { // those without a policy follow others
		l.plans.Enqueue(p.ID().String(), trace.SpanContext{})
		if slices.Contains(clustersOf(p), name) {
			l.statuses.Enqueue(p.ID().String(), trace.SpanContext{})
		}
	}
	l.want()
}

// matters reports whether a change of a cluster may change where objects go. How much room there is does not: what is placed stays for it.
func matters(old, c *api.Cluster) bool {
	before, _ := old.ReadySince()
	after, _ := c.ReadySince()
	return before != after || old.Generation != c.Generation || !maps.Equal(old.Labels, c.Labels) || (old.DeletionTimestamp == nil) != (c.DeletionTimestamp == nil) ||
		!reflect.DeepEqual(old.Status.APIs, c.Status.APIs) || len(old.Status.Kinds) != len(c.Status.Kinds)
}

func (l *life) secretChanged(s *corev1.Secret) {
	for _, c := range l.clusters.List("") {
		if m := l.member(c.Name); m != nil && c.Spec.SecretRef.Namespace == s.Namespace && c.Spec.SecretRef.Name == s.Name {
			m.nudge()
		}
	}
}

// health is what the link remembers of how the member answered.
type health struct {
	failures, successes int
	probed, inspected   time.Time
}

// settleProbes is how often in succession a member that was not ready has to be, before it is.
const settleProbes = 2

// run looks after the member until ctx ends.
func (m *link) run(ctx context.Context) error {
	h := health{}
	for {
		c, ok := m.l.clusters.Get("", m.name)
		if !ok {
			<-ctx.Done() // whoever runs the link ends it
			return ctx.Err()
		}
		m.look(obs.Untraced(ctx), c, &h)
		if c.DeletionTimestamp != nil {
			m.leave(ctx, c)
		}
		if err := m.sleep(ctx, m.pause(c, &h)); err != nil {
			return err
		}
	}
}

// pause is until the next look.
func (m *link) pause(c *api.Cluster, h *health) time.Duration {
	if c.DeletionTimestamp != nil {
		return min(m.l.cfg.Probe, time.Second)
	}
	return max(m.l.cfg.Probe-m.l.cfg.Clock.Since(h.probed), time.Millisecond)
}

// look makes the connection, asks whether the member is ready, and says so.
func (m *link) look(ctx context.Context, c *api.Cluster, h *health) {
	now := m.l.cfg.Clock.Now()
	fresh, err := m.connect(c)
	if err != nil {
		m.judge(ctx, c, false, "NoCredentials", err.Error(), nil)
		h.probed = now
		return
	}
	if fresh {
		*h = health{}
	}
	if !h.probed.IsZero() && now.Sub(h.probed) < m.l.cfg.Probe {
		m.follow(ctx, c)
		return
	}
	h.probed = now
	err = m.connection().Probe(ctx, m.l.cfg.ProbeTimeout)
	m.l.metrics.probes.WithLabelValues(m.name, result(err)).Observe(m.l.cfg.Clock.Since(now).Seconds())
	never := meta.FindStatusCondition(c.Status.Conditions, api.Ready) == nil
	if err != nil {
		h.successes = 0
		if h.failures++; h.failures >= m.l.cfg.ProbeFailures || never {
			reason, message := unready(err)
			m.judge(ctx, c, false, reason, message, nil)
		}
		return
	}
	h.failures = 0
	h.successes++
	wasReady, _ := c.ReadySince()
	if first := never || len(c.Status.APIs) == 0; !wasReady && !first && h.successes < settleProbes {
		return
	}
	var facts *member.Facts
	if !m.isReady() || now.Sub(h.inspected) >= m.l.cfg.Inspect {
		told, err := m.connection().Inspect(ctx)
		if err != nil {
			reason, message := unready(err)
			m.judge(ctx, c, false, reason, message, nil)
			return
		}
		h.inspected, facts = now, &told
	}
	if !m.isReady() {
		m.connection().Unfollow() // what was known of it may be old
	}
	if m.judge(ctx, c, true, "Answers", "the cluster answers, and says that it is ready", facts) {
		m.follow(ctx, c)
		if facts != nil {
			m.prune(ctx, c)
		}
	}
}

// unready says why a member is not, in a word and in a sentence.
func unready(err error) (reason, message string) {
	switch {
	case apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err):
		return "NotAllowed", "the cluster does not let the federation in: " + err.Error()
	case apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err):
		return "NotReady", "the cluster says that it is not ready: " + err.Error()
	}
	return "Unreachable", err.Error()
}

// connect makes the connection anew where the cluster or its Secret say something else than it was made of, and reports whether it did.
func (m *link) connect(c *api.Cluster) (fresh bool, err error) {
	ref := c.Spec.SecretRef
	secret, ok := m.l.secrets.Get(ref.Namespace, ref.Name)
	if !ok {
		m.close()
		return false, fmt.Errorf("there is no Secret %s/%s of the type %s", ref.Namespace, ref.Name, api.CredentialsType)
	}
	credentials, err := member.CredentialsOf(c, secret.Data)
	if err != nil {
		m.close()
		return false, err
	}
	data, err := json.Marshal(credentials)
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	m.mu.Lock()
	same := m.conn != nil && m.digest == digest
	m.mu.Unlock()
	if same {
		return false, nil
	}
	m.close()
	conn, err := member.Dial(m.name, credentials, m.changed)
	if err != nil {
		return false, err
	}
	m.mu.Lock()
	m.conn, m.digest = conn, digest
	m.mu.Unlock()
	return true, nil
}

// judge says in the cluster's status whether it is ready, and what it told, and reports whether that is written.
func (m *link) judge(ctx context.Context, c *api.Cluster, ready bool, reason, message string, facts *member.Facts) bool {
	status := metav1.ConditionFalse
	if ready {
		status = metav1.ConditionTrue
		if facts != nil && facts.Room != nil {
			message += "; how much room it has is not known: " + facts.Room.Error()
		} else if facts == nil { // what it told last holds
			if now := meta.FindStatusCondition(c.Status.Conditions, api.Ready); now != nil && now.Status == status {
				message = now.Message
			}
		}
	}
	condition := metav1.Condition{Type: api.Ready, Status: status, Reason: reason, Message: message, ObservedGeneration: c.Generation, LastTransitionTime: metav1.NewTime(m.l.cfg.Clock.Now())}
	err := m.update(ctx, func(c *api.Cluster) {
		meta.SetStatusCondition(&c.Status.Conditions, condition)
		if facts != nil {
			c.Status.KubernetesVersion, c.Status.APIs = facts.Version, facts.APIs
			c.Status.Nodes, c.Status.Allocatable, c.Status.Allocated = facts.Nodes, facts.Allocatable, facts.Allocated
		}
	})
	if err != nil {
		slog.WarnContext(ctx, "the status of a cluster is not written", "name", m.name, "err", err)
		return false
	}
	m.mu.Lock()
	before := m.ready
	m.ready = ready
	m.mu.Unlock()
	if before != ready {
		slog.InfoContext(ctx, "cluster", "name", m.name, "ready", ready, "reason", reason)
		if !ready {
			m.l.recorder.Eventf(clusterReference(c), corev1.EventTypeWarning, reason, "The cluster is not ready: %s", message)
		} else {
			m.l.recorder.Event(clusterReference(c), corev1.EventTypeNormal, "Ready", "The cluster is ready")
		}
		for _, p := range m.l.indexed(byCluster, m.name) {
			m.carry(p.ID().String(), trace.SpanContext{})
			m.l.statuses.Enqueue(p.ID().String(), trace.SpanContext{})
		}
	}
	return true
}

// clusterReference is the cluster as events name it.
func clusterReference(c *api.Cluster) *api.Cluster {
	c = c.Copy()
	c.SetGroupVersionKind(api.Clusters.GVK)
	return c
}

// updateTries is how often a status is written against others.
const updateTries = 3

// update changes the cluster's status as it is now.
func (m *link) update(ctx context.Context, change func(*api.Cluster)) error {
	clusters := object.For(m.l.cfg.Objects, api.Clusters)
	var err error
	for range updateTries {
		cached, ok := m.l.clusters.Get("", m.name)
		if !ok {
			return nil
		}
		if would := cached.Copy(); err == nil {
			if change(would); reflect.DeepEqual(would.Status, cached.Copy().Status) {
				return nil
			}
		}
		var now *api.Cluster
		if now, err = clusters.Get(ctx, "", m.name); err != nil {
			return ignoreGone(err)
		}
		if now.UID != cached.UID {
			return nil
		}
		before := now.Copy()
		change(now)
		if reflect.DeepEqual(now.Status, before.Status) {
			return nil
		}
		if _, err = clusters.UpdateStatus(ctx, now); !apierrors.IsConflict(err) {
			return ignoreGone(err)
		}
	}
	return err
}

// noteKind writes down that something of a kind is carried to the member, before it is: it is looked for there from then on, by later leaders as well. The cluster
// is held until nothing is left.
func (m *link) noteKind(ctx context.Context, gvk schema.GroupVersionKind) error {
	c, ok := m.l.clusters.Get("", m.name)
	if !ok {
		return errors.New("the cluster is gone")
	}
	if !slices.Contains(c.Finalizers, api.Finalizer) && c.DeletionTimestamp == nil {
		held := c.Copy()
		held.Finalizers = append(held.Finalizers, api.Finalizer)
		if _, err := object.For(m.l.cfg.Objects, api.Clusters).Update(ctx, held); err != nil {
			return err
		}
	}
	kind := typeOf(gvk)
	if slices.Contains(c.Status.Kinds, kind) {
		return nil
	}
	return m.update(ctx, func(c *api.Cluster) {
		if !slices.Contains(c.Status.Kinds, kind) {
			c.Status.Kinds = append(c.Status.Kinds, kind)
		}
	})
}

func typeOf(gvk schema.GroupVersionKind) metav1.TypeMeta {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

// follow has the kinds followed of which something may be in the member.
func (m *link) follow(ctx context.Context, c *api.Cluster) {
	conn := m.connection()
	if conn == nil || !m.isReady() {
		return
	}
	for _, kind := range c.Status.Kinds {
		if err := conn.Follow(ctx, kind.GroupVersionKind()); err != nil {
			slog.WarnContext(ctx, "a kind of a member is not followed", "cluster", m.name, "kind", kind.Kind, "err", err)
		}
	}
}

// prune ends what is known of kinds of which nothing is left.
func (m *link) prune(ctx context.Context, c *api.Cluster) {
	used := map[metav1.TypeMeta]bool{typeOf(namespaceKind): true}
	for _, p := range m.l.indexed(byCluster, m.name) {
		used[typeOf(p.ID().GVK)] = true
	}
	conn := m.connection()
	if conn == nil {
		return
	}
	unused := func(kind metav1.TypeMeta) bool {
		all, synced := conn.All(kind.GroupVersionKind())
		return !used[kind] && synced && len(all) == 0
	}
	if !slices.ContainsFunc(c.Status.Kinds, unused) {
		return
	}
	var dropped []metav1.TypeMeta
	err := m.update(ctx, func(c *api.Cluster) {
		dropped = nil
		c.Status.Kinds = slices.DeleteFunc(c.Status.Kinds, func(kind metav1.TypeMeta) bool {
			drop := unused(kind)
			if drop {
				dropped = append(dropped, kind)
			}
			return drop
		})
	})
	if err != nil {
		return // the next look tries again
	}
	for _, kind := range dropped {
		conn.StopFollowing(kind.GroupVersionKind())
	}
}

// leave lets a cluster go whose deletion was asked for, once nothing of the federation is in it, or once it has been silent for long.
func (m *link) leave(ctx context.Context, c *api.Cluster) {
	if !slices.Contains(c.Finalizers, api.Finalizer) {
		return
	}
	if !m.empty(ctx, c) {
		ready, since := c.ReadySince()
		asked := c.DeletionTimestamp.Time
		if since.Before(asked) {
			since = asked
		}
		if ready || m.l.cfg.Clock.Since(since) < abandonAfter {
			return
		}
		slog.WarnContext(ctx, "a cluster leaves that does not answer: what was carried there stays", "name", m.name)
	}
	freed := c.Copy()
	freed.Finalizers = slices.DeleteFunc(freed.Finalizers, func(f string) bool { return f == api.Finalizer })
	if _, err := object.For(m.l.cfg.Objects, api.Clusters).Update(ctx, freed); ignoreGone(err) != nil && !apierrors.IsConflict(err) {
		slog.WarnContext(ctx, "a cluster cannot leave yet", "name", m.name, "err", err)
	}
}

// empty reports whether nothing is in the member any more, and leaves to it the namespaces that were made there.
func (m *link) empty(ctx context.Context, c *api.Cluster) bool {
	conn := m.connection()
	if conn == nil || !m.isReady() || len(m.l.indexed(byCluster, m.name)) > 0 {
		return false
	}
	for _, kind := range c.Status.Kinds {
		all, synced := conn.All(kind.GroupVersionKind())
		if !synced {
			return false
		}
		for _, o := range all {
			if !carry.Ours(o, m.l.federation) {
				continue
			}
			if kind != typeOf(namespaceKind) || !carry.MadeAsNeeded(o) {
				return false
			}
			if err := conn.Release(ctx, o); err != nil {
				slog.WarnContext(ctx, "a namespace of a member is not left to it", "cluster", m.name, "namespace", o.GetName(), "err", err)
				return false
			}
		}
	}
	return true
}
