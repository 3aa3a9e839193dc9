// Package column has what the tables of kubectl get have in common: column
// definitions with Kubernetes' names, and the texts of ages, labels and lists.
package column

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
)

// None and Unknown are what kubectl shows for a value that is absent or not known.
const (
	None    = "<none>"
	Unknown = "<unknown>"
)

var meta = metav1.ObjectMeta{}.SwaggerDoc()

// Name is the first column of nearly every kind.
func Name() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: meta["name"]}
}

// Age is the column of the time since creation.
func Age() metav1.TableColumnDefinition {
	return String("Age", meta["creationTimestamp"])
}

// String is a column of texts.
func String(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

// Integer is a column of numbers.
func Integer(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "integer", Description: description}
}

// Boolean is a column of truth values.
func Boolean(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "boolean", Description: description}
}

// Wide makes a column show with -o wide only.
func Wide(c metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	c.Priority = 1
	return c
}

// Since is the time from t to now as kubectl shows ages: "5m", "3d4h", or
// "<unknown>" for no time.
func Since(now time.Time, t time.Time) string {
	if t.IsZero() {
		return Unknown
	}
	return duration.HumanDuration(now.Sub(t))
}

// Labels is "a=b,c=d", sorted, or "<none>".
func Labels(m map[string]string) string { return labels.FormatLabels(m) }

// Selector is a label selector as kubectl shows it, or "<none>" for nil or an
// empty one.
func Selector(s *metav1.LabelSelector) string { return metav1.FormatLabelSelector(s) }

// Containers returns the names and the images of containers, each with commas between.
func Containers(containers []corev1.Container) (names, images string) {
	ns, is := make([]string, len(containers)), make([]string, len(containers))
	for i := range containers {
		ns[i], is[i] = containers[i].Name, containers[i].Image
	}
	return strings.Join(ns, ","), strings.Join(is, ",")
}

// Or is s, or fallback when s is empty.
func Or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
