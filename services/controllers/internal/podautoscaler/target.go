package podautoscaler

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/discovery"
)

// maxTries bounds how often a target is scaled that others change meanwhile.
const maxTries = 5

// scales reads and writes the scales of a resource.
type scales interface {
	Get(ctx context.Context, namespace, name string) (*autoscalingv1.Scale, error)
	Update(ctx context.Context, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error)
}

// target is what an autoscaler scales, as it was read.
type target struct {
	scales scales
	scale  *autoscalingv1.Scale
}

// readTarget reads the scale of what an autoscaler refers to. own says that it is the reference that is wrong.
func readTarget(ctx context.Context, client *object.Client, kinds *discovery.Kinds, namespace string, ref autoscalingv2.CrossVersionObjectReference) (t target, own bool, err error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return t, true, err
	}
	found, err := kinds.Find(ctx, schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
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

// set has the target have a number of replicas, whatever others write of it meanwhile, unless they have changed the number that was read: it was not decided
// for another one, least of all for 0, by which people stop an autoscaler, nor for another target of the name.
func (t target) set(ctx context.Context, replicas int32) error {
	scale := t.scale
	for try := 1; ; try++ {
		wanted := scale.DeepCopy()
		wanted.Spec.Replicas = replicas
		_, err := t.scales.Update(ctx, wanted)
		if !apierrors.IsConflict(err) || try == maxTries {
			return err
		}
		newer, failed := t.scales.Get(ctx, scale.Namespace, scale.Name)
		if failed != nil || newer.UID != scale.UID || newer.Spec.Replicas != scale.Spec.Replicas {
			return err
		}
		scale = newer
	}
}
