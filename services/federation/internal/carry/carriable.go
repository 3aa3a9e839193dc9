// Package carry says what of a template is sent to a member, and in which form. It is pure.
package carry

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/federation/api"
)

// Carriable says why an object is never carried, nil where it may be: what every cluster has of its own, what controllers make of other objects, and what only
// means something where it is.
func Carriable(o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	if why := KindCarriable(gvk.Group, gvk.Kind); why != nil {
		return why
	}
	namespace := o.GetNamespace()
	if gvk.Group == "" && gvk.Kind == "Namespace" {
		namespace = o.GetName()
	}
	if strings.HasPrefix(namespace, "kube-") || namespace == api.Namespace {
		return fmt.Errorf("the namespace %s is each cluster's own", namespace)
	}
	if gvk.Group == "" && gvk.Kind == "Namespace" && namespace == metav1.NamespaceDefault {
		return fmt.Errorf("every cluster has the namespace %s", namespace)
	}
	if owner := metav1.GetControllerOf(o); owner != nil {
		return fmt.Errorf("%s %s makes it, in every cluster", owner.Kind, owner.Name)
	}
	own := map[string]string{"ConfigMap": "kube-root-ca.crt", "ServiceAccount": "default"}
	switch name := o.GetName(); {
	case gvk.Group == "" && own[gvk.Kind] == name:
		return fmt.Errorf("every namespace has the %s %s", gvk.Kind, name)
	case gvk.Group == "" && gvk.Kind == "Service" && name == "kubernetes" && namespace == metav1.NamespaceDefault:
		return fmt.Errorf("every cluster has the Service kubernetes")
	case gvk.Group == "" && gvk.Kind == "Secret" && typeOf(o) == string(corev1.SecretTypeServiceAccountToken):
		return fmt.Errorf("the token of a service account is good in one cluster alone")
	case gvk.Group == "rbac.authorization.k8s.io" && o.GetLabels()["kubernetes.io/bootstrapping"] != "":
		return fmt.Errorf("every cluster has it from the beginning")
	}
	return nil
}

// KindCarriable says why no object of a kind is carried.
func KindCarriable(group, kind string) error {
	switch group {
	case api.Group:
		return fmt.Errorf("a federation's own objects are not carried")
	case "events.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "metrics.k8s.io", "apiregistration.k8s.io", "certificates.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "internal.apiserver.k8s.io":
		return fmt.Errorf("objects of %s are each cluster's own", group)
	case "":
		switch kind {
		case "Node", "Event", "Endpoints", "ComponentStatus", "Binding":
			return fmt.Errorf("a %s is each cluster's own", kind)
		}
	}
	return nil
}

func typeOf(o *unstructured.Unstructured) string {
	t, _, _ := unstructured.NestedString(o.Object, "type")
	return t
}
