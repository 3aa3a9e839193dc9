package objects

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// scaleAnswer encodes a Scale as a client asks for it.
func (s *Server) scaleAnswer(kind *registry.Kind, scale *autoscalingv1.Scale, form codec.Form) ([]byte, string, error) {
	scale.SetGroupVersionKind(scaleGVK)
	age := "<unknown>"
	if created := scale.CreationTimestamp.Time; !created.IsZero() {
		age = duration.HumanDuration(s.now().Sub(created))
	}
	cells := []any{scale.Name, int64(scale.Spec.Replicas), int64(scale.Status.Replicas), age}
	if kind.Custom != nil && scale.Spec.Replicas == 0 {
		cells[1] = nil // the column is a path, at which the Scale of a custom resource says nothing
	}
	return codec.Single(scale, scaleGVK, scaleColumns(kind.Custom != nil), cells, form)
}

// scaleColumns are those of a Scale's table. Kubernetes words them otherwise for custom resources.
func scaleColumns(custom bool) []metav1.TableColumnDefinition {
	meta := metav1.ObjectMeta{}.SwaggerDoc()
	name := metav1.TableColumnDefinition{Name: "Name", Type: "string", Description: meta["name"]}
	desired := metav1.TableColumnDefinition{Name: "Desired", Type: "integer", Description: autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]}
	available := metav1.TableColumnDefinition{Name: "Available", Type: "integer", Description: autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]}
	age := metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: meta["creationTimestamp"]}
	if custom {
		name.Format, age.Type = "name", "date"
		desired.Description, available.Description = "Number of desired replicas", "Number of actual replicas"
	}
	return []metav1.TableColumnDefinition{name, desired, available, age}
}
