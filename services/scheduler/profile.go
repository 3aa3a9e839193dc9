package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/task"
	"howdah.dev/services/scheduler/internal/config"
)

// Configuration says what a scheduler does for which pods.
type Configuration = config.Configuration

// LoadConfiguration reads a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1, as YAML or JSON. The error says all that is wrong with it.
func LoadConfiguration(path string) (*Configuration, error) { return config.Load(path) }

// profile is what decides for the pods of one schedulerName, and who tells of it in events.
type profile struct {
	config.Profile
	metrics *profileMetrics
	events  object.Reporter
	send    object.Sender
}

// profiles has one at least. They share the queue.
type profiles struct {
	byName map[string]*profile
	all    []*profile // as they are configured
}

func profilesOf(c *Configuration) profiles {
	p := profiles{byName: make(map[string]*profile, len(c.Profiles))}
	for _, configured := range c.Profiles {
		made := &profile{Profile: configured}
		p.byName[configured.Name], p.all = made, append(p.all, made)
	}
	return p
}

// has reports whether there is a profile for a schedulerName.
func (p profiles) has(name string) bool { return p.byName[name] != nil }

// of is the profile of a pod; that of pods which others place is the first one, so that these can be explained.
func (p profiles) of(pod *corev1.Pod) *profile {
	if own, ok := p.byName[pod.Spec.SchedulerName]; ok {
		return own
	}
	return p.all[0]
}

// record has each profile tell events under its own name.
func (p profiles) record(client *object.Client) {
	for _, own := range p.all {
		own.events, own.send = object.NewReporter(client, own.Name)
	}
}

// count has each profile count what it does.
func (p profiles) count(m *metrics) {
	for _, own := range p.all {
		own.metrics = m.of(own.Name, own.Profile.Profile)
	}
}

// sendEvents sends the events of all profiles until ctx ends.
func (p profiles) sendEvents(ctx context.Context) error {
	senders := make([]task.Func, 0, len(p.all))
	for _, own := range p.all {
		senders = append(senders, own.send)
	}
	return task.Run(ctx, senders...)
}
