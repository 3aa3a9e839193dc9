package attachdetach

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// measured returns how many operations of a kind ended so, and how long they took together.
func measured(t *testing.T, registry *prometheus.Registry, operation, status string) (n uint64, seconds float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "storage_operation_duration_seconds" {
			continue
		}
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["operation_name"] == operation && labels["status"] == status && labels["volume_plugin"] == "kubernetes.io/csi:d" && labels["migrated"] == "false" {
				n, seconds = n+m.Histogram.GetSampleCount(), seconds+m.Histogram.GetSampleSum()
			}
		}
	}
	return n, seconds
}

func TestOperations(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	problem := func(seconds int) *storagev1.VolumeError {
		return &storagev1.VolumeError{Message: "no", Time: metav1.NewTime(at(seconds))}
	}
	state := func(attached bool, attach, detach *storagev1.VolumeError) *storagev1.VolumeAttachment {
		return &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "d"},
			Status: storagev1.VolumeAttachmentStatus{Attached: attached, AttachError: attach, DetachError: detach},
		}
	}
	fresh, attached := state(false, nil, nil), state(true, nil, nil)
	type result struct {
		n       uint64
		seconds float64
	}
	for _, c := range []struct {
		name                           string
		play                           func(m *Metrics)
		attach, noAttach, detach, left result
	}{
		{name: "attached", attach: result{1, 3}, play: func(m *Metrics) {
			m.begins("a", attaching, at(0))
			m.begins("a", attaching, at(1))
			m.saw(nil, fresh, at(1))
			m.saw(fresh, attached, at(3))
			m.saw(attached, attached, at(9))
		}},
		{name: "attached at the second try", attach: result{1, 1}, noAttach: result{1, 4}, play: func(m *Metrics) {
			m.begins("a", attaching, at(0))
			m.saw(fresh, state(false, problem(4), nil), at(4))
			m.saw(state(false, problem(4), nil), state(false, problem(4), nil), at(4))
			m.saw(state(false, problem(4), nil), attached, at(5))
		}},
		{name: "of another leader", play: func(m *Metrics) { m.saw(fresh, attached, at(3)) }},
		{name: "not asked for after all", play: func(m *Metrics) {
			m.begins("a", attaching, at(0))
			m.dropped("a", attaching)
			m.saw(fresh, attached, at(3))
		}},
		{name: "gone before it was attached", play: func(m *Metrics) {
			m.begins("a", attaching, at(0))
			m.saw(fresh, nil, at(1))
			m.saw(fresh, attached, at(3))
		}},
		{name: "detached at the second try", detach: result{1, 2}, left: result{1, 5}, play: func(m *Metrics) {
			m.begins("a", detaching, at(0))
			m.saw(attached, state(true, nil, problem(5)), at(5))
			m.saw(state(true, nil, problem(5)), nil, at(7))
		}},
	} {
		registry := prometheus.NewRegistry()
		c.play(NewMetrics(registry))
		for _, want := range []struct {
			operation, status string
			result
		}{
			{attaching, "success", c.attach}, {attaching, "fail-unknown", c.noAttach}, {detaching, "success", c.detach}, {detaching, "fail-unknown", c.left},
		} {
			if n, seconds := measured(t, registry, want.operation, want.status); n != want.n || seconds != want.seconds {
				t.Errorf("%s: %s, %s: %d of %v s, want %d of %v s", c.name, want.operation, want.status, n, seconds, want.n, want.seconds)
			}
		}
	}
	(*Metrics)(nil).saw(nil, fresh, start)
}

func TestForcedDetaches(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry())
	m.detachedByForce(nil)
	m.detachedByForce(&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}}})
	for _, reason := range []string{"timeout", "out-of-service"} {
		if n := testutil.ToFloat64(m.forced.WithLabelValues(reason)); n != 1 {
			t.Errorf("%v are counted for %s", n, reason)
		}
	}
	(*Metrics)(nil).detachedByForce(nil)
}
