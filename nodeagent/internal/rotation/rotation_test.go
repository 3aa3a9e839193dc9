package rotation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	yes, no = true, false
	here    = "n1"
	there   = "n2"
	pod     = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
)

func slice(name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Endpoints: endpoints}
}

func endpoint(node *string, ready, terminating *bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		NodeName: node, TargetRef: &corev1.ObjectReference{Kind: "Pod", UID: "u"},
		Conditions: discoveryv1.EndpointConditions{Ready: ready, Terminating: terminating},
	}
}

func TestHas(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		endpoint discoveryv1.Endpoint
		want     bool
	}{
		"ready":                   {endpoint(&here, &yes, &no), true},
		"ready where none says":   {endpoint(&here, nil, nil), true},
		"not ready":               {endpoint(&here, &no, nil), false},
		"ready though it ends":    {endpoint(&here, &yes, &yes), false},
		"another node's":          {endpoint(&there, &yes, nil), false},
		"not a pod":               {discoveryv1.Endpoint{NodeName: &here}, false},
		"a pod of another object": {discoveryv1.Endpoint{NodeName: &here, TargetRef: &corev1.ObjectReference{Kind: "VM", UID: "u"}}, false},
	} {
		m := New(here)
		m.Update(slice("s", test.endpoint))
		if got := m.Has(pod); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestLeftWaitsForAllSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(here)
		m.Update(slice("a", endpoint(&here, &yes, nil)))
		m.Update(slice("b", endpoint(&here, &yes, nil)))
		left := make(chan error, 1)
		go func() { left <- m.Left(t.Context(), pod) }()
		m.Update(slice("a", endpoint(&here, &no, &yes)))
		synctest.Wait()
		select {
		case err := <-left:
			t.Fatalf("it left while slice b had it: %v", err)
		default:
		}
		m.Delete(slice("b"))
		if err := <-left; err != nil {
			t.Error(err)
		}
		m.Update(slice("a", endpoint(&here, &yes, nil)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Left(ctx, pod); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a pod that stays: %v", err)
		}
	})
}
