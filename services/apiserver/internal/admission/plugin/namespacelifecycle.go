package plugin

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/admission"
)

// NamespaceLifecycle refuses what would be made in a namespace that is absent or going, and the deletion of the
// namespaces that every cluster has.
type NamespaceLifecycle struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*NamespaceLifecycle) Name() string { return "NamespaceLifecycle" }

// Handles implements admission.Plugin. Creates of subresources count, as evictions and bindings.
func (*NamespaceLifecycle) Handles(a *admission.Attributes) bool {
	if a.Is("", "namespaces") {
		return a.Operation == admission.Delete
	}
	return a.Operation == admission.Create && a.Namespace != "" && !a.Is("authorization.k8s.io", "localsubjectaccessreviews")
}

// Admit implements admission.Mutator: it runs before anything else is done for the object.
func (p *NamespaceLifecycle) Admit(ctx context.Context, a *admission.Attributes) error {
	if a.Operation == admission.Delete {
		switch a.Name {
		case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
			return a.Forbidden(errors.New("this namespace may not be deleted"))
		}
		return nil
	}
	obj, err := p.Objects.Get(ctx, "", "namespaces", "", a.Namespace)
	if err != nil {
		return err
	}
	ns, ok := obj.(*corev1.Namespace)
	if !ok || ns.Status.Phase != corev1.NamespaceTerminating && ns.DeletionTimestamp == nil {
		return nil
	}
	err = a.Forbidden(fmt.Errorf("unable to create new content in namespace %s because it is being terminated", a.Namespace))
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", a.Namespace), Field: "metadata.namespace",
		})
	}
	return err
}
