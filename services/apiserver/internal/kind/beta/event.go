package beta

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	eventsv1beta1 "k8s.io/api/events/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/kind/event"
	"howdah.dev/services/apiserver/internal/kind/recast"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// oldEvent is events.k8s.io/v1beta1, which has the fields of events.k8s.io/v1.
func oldEvent() registry.Version {
	gv := eventsv1beta1.SchemeGroupVersion
	return registry.Version{
		GVK:     gv.WithKind("Event"),
		New:     func() registry.Object { return &eventsv1beta1.Event{} },
		NewList: func() runtime.Object { return &eventsv1beta1.EventList{} },
		ToStored: typed.Convert(func(in *eventsv1beta1.Event) *corev1.Event {
			middle := &eventsv1.Event{}
			recast.Into(in, middle)
			return event.FromEvents(middle)
		}),
		FromStored: typed.Convert(func(in *corev1.Event) *eventsv1beta1.Event {
			out := &eventsv1beta1.Event{}
			recast.Into(event.ToEvents(in), out)
			out.SetGroupVersionKind(gv.WithKind("Event"))
			return out
		}),
		Deprecated: warning(&eventsv1beta1.Event{}, gv, eventsv1.SchemeGroupVersion),
	}
}
