package legacytoken

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

const year = 365 * 24 * time.Hour

var now = time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)

// start runs the controller where uses are noted since the day, and Secrets were made long ago.
func start(t *testing.T, since string, secrets ...*corev1.Secret) *controllertest.Cluster {
	t.Helper()
	prepare := func(c *controllertest.Cluster) {
		c.API.Now = func() time.Time { return now.Add(-3 * year) }
		if since != "" {
			controllertest.Create(c, object.ConfigMap, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trackingName}, Data: map[string]string{sinceKey: since},
			})
		}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bot"}}
		for _, s := range secrets {
			s.Namespace, s.Annotations, s.Type = "ns", map[string]string{corev1.ServiceAccountNameKey: "bot"}, corev1.SecretTypeServiceAccountToken
			account.Secrets = append(account.Secrets, corev1.ObjectReference{Name: s.Name})
			controllertest.Create(c, object.Secret, s)
		}
		controllertest.Create(c, object.ServiceAccount, account)
		controllertest.Create(c, object.Pod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}}},
		}})
	}
	return controllertest.Start(t, clocktesting.NewFakeClock(now), prepare, func(env *controller.Env) (controller.Unit, error) { return New(env, year), nil })
}

func labelled(name string, labels map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	c := start(t, "2025-11-19",
		labelled("unused", nil),
		labelled("bad", map[string]string{lastUsedLabel: "never"}),
		labelled("fresh", map[string]string{lastUsedLabel: "2026-01-01"}),
		labelled("mounted", nil),
		labelled("gone", map[string]string{lastUsedLabel: "2024-01-01", invalidSinceLabel: "2025-01-01"}),
		labelled("zz-last", nil),
	)
	left := controllertest.Await(c, object.Secret, "two marked and one gone", func(all []*corev1.Secret) bool {
		marked := 0
		for _, s := range all {
			if s.Labels[invalidSinceLabel] == "2026-11-21" {
				marked++
			}
		}
		return marked == 2 && len(all) == 5
	})
	for _, s := range left {
		if want := s.Name == "unused" || s.Name == "zz-last"; want != (s.Labels[invalidSinceLabel] != "") {
			t.Errorf("%s has the labels %v", s.Name, s.Labels)
		}
	}
}

// TestUntracked asks the decision itself: that nothing happens cannot be awaited.
func TestUntracked(t *testing.T) {
	t.Parallel()
	for _, since := range []string{"", "2026-11-21", "2025-11-21", "2030-01-01", "some day"} {
		c := start(t, since)
		cleaner := &cleaner{client: c.Client, period: year}
		if ok, err := cleaner.tracked(t.Context(), now); ok || err != nil {
			t.Errorf("since %q: %v, %v", since, ok, err)
		}
	}
	c := start(t, "2025-11-20")
	if ok, err := (&cleaner{client: c.Client, period: year}).tracked(t.Context(), now); !ok || err != nil {
		t.Errorf("a day and a year: %v, %v", ok, err)
	}
}
