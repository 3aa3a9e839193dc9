// Package config makes profiles of a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1). What may stand in it, and what is
// said of what may not, are Kubernetes' own; what cannot act here is refused. All but Load is pure.
package config

import (
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"howdah.dev/services/scheduler/internal/cycle"
	"howdah.dev/services/scheduler/internal/plugin"
	"howdah.dev/services/scheduler/internal/preempt"
	"howdah.dev/services/scheduler/internal/queue"
)

// Configuration says what a scheduler does.
type Configuration struct {
	// Profiles has one at least, each for another name.
	Profiles []Profile
	Backoffs queue.Backoffs
}

// Profile says what is done for the pods of one schedulerName.
type Profile struct {
	Name string
	cycle.Profile
	// Preemption says how many candidates are looked for; nil has no pod make room for another.
	Preemption *preempt.Enough
	// Spread are the constraints of topology spread that refuse nodes to pods without any of their own.
	Spread []corev1.TopologySpreadConstraint
	// Together says that the pods of a Service go to nodes that have labels in common.
	Together bool
	// VolumeTimeout bounds how long a pod waits on its node for its volumes to be bound, DeviceTimeout how long for its devices to be ready.
	VolumeTimeout, DeviceTimeout time.Duration
}

// Default is the configuration of who sets nothing, for the pods of one schedulerName.
func Default(name string) *Configuration {
	c := &configv1.KubeSchedulerConfiguration{Profiles: []configv1.KubeSchedulerProfile{{SchedulerName: &name}}}
	complete(c)
	return build(c)
}

// Load reads a file of YAML or JSON.
func Load(path string) (*Configuration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("failed to load scheduler configuration: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("failed to load scheduler configuration from file %q: %w", path, err)
	}
	return c, nil
}

// Parse reads YAML or JSON. The error says all that is wrong with it.
func Parse(data []byte) (*Configuration, error) {
	c, err := decode(data)
	if err != nil {
		return nil, err
	}
	complete(c)
	if errs := check(c); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return build(c), nil
}

// decode refuses fields that are not known, or set twice.
func decode(data []byte) (*configv1.KubeSchedulerConfiguration, error) {
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	scheme.AddKnownTypes(configv1.SchemeGroupVersion, &plugin.NodeLabelArgs{}, &plugin.ServiceAffinityArgs{})
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	obj, err := runtime.Decode(codecs.UniversalDecoder(configv1.SchemeGroupVersion), data)
	if err != nil {
		return nil, err
	}
	c, ok := obj.(*configv1.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s", obj.GetObjectKind().GroupVersionKind())
	}
	return c, nil
}

// complete sets what is not set.
func complete(c *configv1.KubeSchedulerConfiguration) {
	setDefault(&c.PodInitialBackoffSeconds, int64(queue.DefaultBackoffs.First/time.Second))
	setDefault(&c.PodMaxBackoffSeconds, int64(queue.DefaultBackoffs.Last/time.Second))
	if len(c.Profiles) == 0 {
		c.Profiles = []configv1.KubeSchedulerProfile{{}}
	}
	if len(c.Profiles) == 1 {
		setDefault(&c.Profiles[0].SchedulerName, corev1.DefaultSchedulerName)
	}
	for i := range c.Profiles {
		for j := range c.Profiles[i].PluginConfig {
			given := &c.Profiles[i].PluginConfig[j]
			if p := plugin.Find(given.Name); p != nil && p.Args != nil && given.Args.Object != nil {
				p.Args.Complete(given.Args.Object)
			}
		}
	}
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
