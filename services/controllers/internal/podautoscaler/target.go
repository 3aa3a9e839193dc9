package podautoscaler

import (
	"context"
	"fmt"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/discovery"
)

const (
	// keepKinds is for how long what is served is taken as it was read.
	keepKinds = 30 * time.Second
	// keepNothing is for how long a kind is not looked for again that was not there.
	keepNothing = time.Second
	// maxTries bounds how often a target is scaled that others change meanwhile.
	maxTries = 5
)

// kinds finds the resources of kinds, by discovery. It is safe for concurrent use.
type kinds struct {
	client *object.Client
	clock  clock.PassiveClock

	mu     sync.Mutex
	groups map[string]served
}

// served is what a group serves as of a time.
type served struct {
	resources []discovery.Resource
	at        time.Time
}

func newKinds(client *object.Client, c clock.PassiveClock) *kinds {
	return &kinds{client: client, clock: c, groups: map[string]served{}}
}

// find returns the resources of a kind, of which there is at least one, those of its group's preferred version first.
func (k *kinds) find(ctx context.Context, kind schema.GroupKind) ([]discovery.Resource, error) {
	k.mu.Lock()
	known, now := k.groups[kind.Group], k.clock.Now()
	k.mu.Unlock()
	age := now.Sub(known.at)
	found := known.of(kind)
	if len(found) > 0 && age < keepKinds {
		return found, nil
	}
	if len(found) == 0 && age < keepNothing {
		return nil, &meta.NoKindMatchError{GroupKind: kind}
	}
	resources, err := discovery.Group(ctx, k.client, kind.Group)
	fresh := served{resources, now}
	if found = fresh.of(kind); len(found) == 0 && err != nil {
		return nil, err
	}
	k.mu.Lock()
	k.groups[kind.Group] = fresh
	k.mu.Unlock()
	if len(found) == 0 {
		return nil, &meta.NoKindMatchError{GroupKind: kind}
	}
	return found, nil
}

func (s served) of(kind schema.GroupKind) []discovery.Resource {
	var found []discovery.Resource
	for _, r := range s.resources {
		if r.GVK.GroupKind() == kind {
			found = append(found, r)
		}
	}
	return found
}

// target is what an autoscaler scales, as it was read.
type target struct {
	scales object.Scales
	scale  *autoscalingv1.Scale
}

// readTarget reads the scale of what an autoscaler refers to. own says that it is the reference that is wrong.
func readTarget(ctx context.Context, client *object.Client, kinds *kinds, namespace string, ref autoscalingv2.CrossVersionObjectReference) (t target, own bool, err error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return t, true, err
	}
	found, err := kinds.find(ctx, schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if err != nil {
		return t, false, err
	}
	for i, r := range found {
		scales := client.Scales(r.GVK.GroupVersion().WithResource(r.Name), r.Remote)
		scale, problem := scales.Get(ctx, namespace, ref.Name)
		if problem == nil {
			problem = checkSelector(scale.Status.Selector)
		}
		if problem == nil {
			return target{scales, scale}, false, nil
		}
		if i == 0 {
			err = problem
		}
	}
	return t, false, err
}

// checkSelector refuses a Scale whose selector is none, as clients of Kubernetes do that read Scales of any version.
func checkSelector(selector string) error {
	if _, err := metav1.ParseToLabelSelector(selector); err != nil {
		return fmt.Errorf("received an object from a /scale endpoint which was not convertible to autoscaling Scale: failed to parse target selector: %w", err)
	}
	return nil
}

// set has the target have a number of replicas, whatever others write of it meanwhile.
func (t target) set(ctx context.Context, replicas int32) error {
	scale := t.scale
	for try := 1; ; try++ {
		scale.Spec.Replicas = replicas
		_, err := t.scales.Update(ctx, scale)
		if !apierrors.IsConflict(err) || try == maxTries {
			return err
		}
		newer, failed := t.scales.Get(ctx, scale.Namespace, scale.Name)
		if failed != nil {
			return err
		}
		scale = newer
	}
}
