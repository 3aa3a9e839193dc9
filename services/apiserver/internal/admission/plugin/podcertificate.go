package plugin

import (
	"context"
	"fmt"
	"net/http"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authz"
)

// PodCertificateSigning lets only those end a pod's request for a certificate who may sign as the signer. With Kubernetes it is part of the
// kind, and cannot be switched off: so it is here, though it stands in the admission chain, which knows who writes.
type PodCertificateSigning struct{ Authorizer authz.Authorizer }

// Name implements admission.Plugin.
func (*PodCertificateSigning) Name() string { return "PodCertificateSigning" }

// Handles implements admission.Plugin.
func (*PodCertificateSigning) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Update && a.Subresource == "status" && a.Is(certificatesv1.GroupName, "podcertificaterequests")
}

// Validate implements admission.Validator.
func (p *PodCertificateSigning) Validate(ctx context.Context, a *admission.Attributes) error {
	request, ok := a.Object.(*certificatesv1beta1.PodCertificateRequest)
	old, was := a.Old.(*certificatesv1beta1.PodCertificateRequest)
	if !ok || !was || equality.Semantic.DeepEqual(request.Status, old.Status) {
		return nil
	}
	signer := old.Spec.SignerName
	if signerPermitted(ctx, p.Authorizer, a.User, "sign", signer) {
		return nil
	}
	return apierrors.NewInvalid(a.Resource.Kind.GVK.GroupKind(), old.Name, field.ErrorList{
		field.Forbidden(field.NewPath("spec", "signerName"), fmt.Sprintf("User %q is not permitted to \"sign\" for signer %q", a.User.Name, signer)),
	})
}

// certificate keeps a node to requests for the pods that are bound to it. What does not agree with what this server knows is an error that
// may pass, as with Kubernetes, and no refusal: the node may know better.
func (p *NodeRestriction) certificate(ctx context.Context, a *admission.Attributes, node string) error {
	request, ok := a.Object.(*certificatesv1beta1.PodCertificateRequest)
	switch {
	case a.Operation != admission.Create:
		return a.Forbidden(fmt.Errorf("unexpected operation %v", a.Operation))
	case a.Subresource != "":
		return a.Forbidden(fmt.Errorf("unexpected subresource %v", a.Subresource))
	case !ok:
		return nil
	}
	s := &request.Spec
	if string(s.NodeName) != node {
		return a.Forbidden(fmt.Errorf("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", s.NodeName, node))
	}
	name := a.Namespace + "/" + s.PodName
	running, err := known[*corev1.Node](ctx, p.Objects, "nodes", "", node)
	if err != nil {
		return passing("while retrieving node %q named in the PodCertificateRequest: %w", node, gone(err, "node", node))
	}
	if running.UID != s.NodeUID {
		return passing("PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)", name, s.NodeUID, running.UID)
	}
	pod, err := known[*corev1.Pod](ctx, p.Objects, "pods", a.Namespace, s.PodName)
	if err != nil {
		return passing("while retrieving pod %q named in the PodCertificateRequest: %w", name, gone(err, "pod", s.PodName))
	}
	if pod.UID != s.PodUID {
		return passing("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q", name, s.PodUID, pod.UID)
	}
	if pod.Spec.NodeName != node {
		return a.Forbidden(fmt.Errorf("pod %q is not running on node %q named in the PodCertificateRequest", name, node))
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return a.Forbidden(fmt.Errorf("pod %q is a mirror pod", name))
	}
	return p.certified(ctx, a, s, pod, name)
}

// certified compares the account that stands behind the pod.
func (p *NodeRestriction) certified(ctx context.Context, a *admission.Attributes, s *certificatesv1beta1.PodCertificateRequestSpec, pod *corev1.Pod, name string) error {
	if pod.Spec.ServiceAccountName != s.ServiceAccountName {
		return a.Forbidden(fmt.Errorf("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)", name, s.ServiceAccountName, pod.Spec.ServiceAccountName))
	}
	account, err := known[*corev1.ServiceAccount](ctx, p.Objects, "serviceaccounts", a.Namespace, s.ServiceAccountName)
	if err != nil {
		return passing("while retrieving service account %q named in the PodCertificateRequest: %w", a.Namespace+"/"+s.ServiceAccountName, gone(err, "serviceaccount", s.ServiceAccountName))
	}
	if account.UID != s.ServiceAccountUID {
		return passing("PodCertificateRequest for pod %q names service account UID %q, which differs from the running service account (%q)", name, s.ServiceAccountUID, account.UID)
	}
	return nil
}

// passing is the 500 of what may agree when it is asked again: a text, and no more.
func passing(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: fmt.Errorf(format, args...).Error(),
	}}
}

// known returns a core object of which there is a Go type.
func known[T any](ctx context.Context, objects admission.Objects, resource, namespace, name string) (T, error) {
	var none T
	obj, err := objects.Get(ctx, "", resource, namespace, name)
	if err != nil {
		return none, err
	}
	is, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("%s %s/%s is a %T", resource, namespace, name, obj)
	}
	return is, nil
}

// gone is the error of an object that is absent, in the words of Kubernetes' listers, which call it by its singular.
func gone(err error, singular, name string) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %q not found", singular, name)
	}
	return err
}
