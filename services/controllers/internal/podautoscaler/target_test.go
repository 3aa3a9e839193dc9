package podautoscaler

import (
	"context"
	"errors"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fakeScales has one scale.
type fakeScales struct{ now autoscalingv1.Scale }

func (f *fakeScales) Get(context.Context, string, string) (*autoscalingv1.Scale, error) {
	return f.now.DeepCopy(), nil
}

func (f *fakeScales) Update(_ context.Context, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	if scale.UID != f.now.UID || scale.ResourceVersion != f.now.ResourceVersion {
		return nil, apierrors.NewConflict(corev1.Resource("replicationcontrollers"), scale.Name, errors.New("changed"))
	}
	f.now = *scale
	return scale, nil
}

// TestSet has the target change after it was read.
func TestSet(t *testing.T) {
	t.Parallel()
	is := func(uid types.UID, version string, replicas int32) autoscalingv1.Scale {
		return autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "t", UID: uid, ResourceVersion: version}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	}
	for name, tt := range map[string]struct {
		now  autoscalingv1.Scale
		want int32
	}{
		"unchanged":         {is("a", "1", 3), 5},
		"something else":    {is("a", "2", 3), 5},
		"scaled by another": {is("a", "2", 4), 4},
		"switched off":      {is("a", "2", 0), 0},
		"made again":        {is("b", "2", 3), 3},
	} {
		f, read := &fakeScales{tt.now}, is("a", "1", 3)
		err := target{f, &read}.set(t.Context(), 5)
		if f.now.Spec.Replicas != tt.want || (err == nil) != (tt.want == 5) {
			t.Errorf("%s: %d replicas, %v", name, f.now.Spec.Replicas, err)
		}
	}
}
