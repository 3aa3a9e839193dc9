// Package owner finds out which node a pod is, or was, bound to: nodes may tell what their own pods have written, and nothing else.
package owner

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
	"howdah.dev/kit/recent"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Pod is what a node says of a pod.
type Pod struct{ Node, Namespace, Name, UID string }

// Verdict is what became of the question.
type Verdict struct {
	// Labels are the pod's.
	Labels map[string]string
	// Refused says why the node may not speak for the pod; empty where it may.
	Refused string
	// Unknown says that the refusal may pass: the API does not have the pod, or not yet.
	Unknown bool
}

// Store remembers the pods whose lines are kept.
type Store interface {
	// PodLabels returns the labels of a pod of which a node has told before; ok is false where it has not.
	PodLabels(ctx context.Context, node, namespace, name, uid string) (labels map[string]string, ok bool, err error)
}

// Finder answers from what it has found before, from the API, from the API's past, and from the store.
type Finder struct {
	pods    object.Resource[*corev1.Pod]
	history apiv1.HistoryServiceClient
	store   Store
	known   recent.Map[Pod, map[string]string]
}

// maxKnown is how many pods are remembered.
const maxKnown = 20_000

// New returns a finder.
func New(client *object.Client, history apiv1.HistoryServiceClient, store Store) *Finder {
	return &Finder{pods: object.For(client, object.Pod), history: history, store: store, known: recent.Map[Pod, map[string]string]{Max: maxKnown}}
}

// Judge says whether a node may speak for a pod. The error is of a peer that does not answer.
func (f *Finder) Judge(ctx context.Context, p Pod) (Verdict, error) {
	if labels, ok := f.known.Get(p); ok {
		return Verdict{Labels: labels}, nil
	}
	v, err := f.find(ctx, p)
	if err == nil && v.Refused == "" {
		f.known.Put(p, v.Labels)
	}
	return v, err
}

func (f *Finder) find(ctx context.Context, p Pod) (Verdict, error) {
	pod, err := f.pods.Get(ctx, p.Namespace, p.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return Verdict{}, fmt.Errorf("ask for pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	if err == nil && is(pod, p.UID) {
		return judge(pod, p), nil
	}
	labels, ok, err := f.store.PodLabels(ctx, p.Node, p.Namespace, p.Name, p.UID)
	if err != nil || ok {
		return Verdict{Labels: labels}, err
	}
	gone, err := f.past(ctx, p)
	if err != nil {
		return Verdict{}, err
	}
	if gone != nil {
		return judge(gone, p), nil
	}
	return Verdict{Refused: "the API knows no such pod", Unknown: true}, nil
}

// is reports whether a pod of the API is the one of that UID, or the mirror of it.
func is(pod *corev1.Pod, uid string) bool {
	return string(pod.UID) == uid || pod.Annotations[corev1.MirrorPodAnnotationKey] == uid
}

// judge decides by what the API has of the pod.
func judge(pod *corev1.Pod, p Pod) Verdict {
	if pod.Spec.NodeName != p.Node {
		return Verdict{Refused: fmt.Sprintf("the pod is not bound to node %q", p.Node)}
	}
	return Verdict{Labels: pod.Labels}
}

// past returns the pod as it was last, nil where the log of changes does not have it.
func (f *Finder) past(ctx context.Context, p Pod) (*corev1.Pod, error) {
	resp, err := f.history.History(ctx, &apiv1.HistoryRequest{Version: "v1", Resource: "pods", Namespace: p.Namespace, Name: p.Name, Objects: true})
	if err = apistatus.FromGRPC(err); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("ask for the past of pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	for _, v := range resp.GetVersions() {
		if v.GetObjectJson() == "" {
			continue
		}
		pod := &corev1.Pod{}
		if err := json.Unmarshal([]byte(v.GetObjectJson()), pod); err != nil {
			return nil, fmt.Errorf("past of pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		if is(pod, p.UID) {
			return pod, nil
		}
	}
	return nil, nil
}
