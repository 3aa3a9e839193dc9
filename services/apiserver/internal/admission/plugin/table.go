package plugin

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/version"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/admission/imagepolicy"
	"howdah.dev/services/apiserver/internal/admission/podsecuritypolicy"
)

// Table returns every plugin in the order in which Kubernetes runs them. Plugins that Kubernetes has removed stand where they
// used to. Those that are on are Kubernetes' own, and NodeRestriction, without which a node's certificate is worth too much.
func Table() []Row {
	return []Row{
		{Name: "AlwaysAdmit", New: plain(func(*Env) admission.Plugin { return AlwaysAdmit{} })},
		{Name: "NamespaceAutoProvision", New: plain(func(e *Env) admission.Plugin {
			return &NamespaceAutoProvision{Objects: e.Objects, Namespaces: e.Namespaces}
		})},
		{Name: "NamespaceLifecycle", On: true, New: plain(func(e *Env) admission.Plugin { return &NamespaceLifecycle{Objects: e.Objects} })},
		{Name: "NamespaceExists", New: plain(func(e *Env) admission.Plugin { return &NamespaceExists{Objects: e.Objects} })},
		{Name: "SecurityContextDeny", New: plain(func(*Env) admission.Plugin { return SecurityContextDeny{} })},
		{Name: "LimitPodHardAntiAffinityTopology", New: plain(func(*Env) admission.Plugin { return LimitPodHardAntiAffinityTopology{} })},
		{Name: "PodPreset", New: plain(func(e *Env) admission.Plugin { return &PodPreset{Objects: e.Objects} })},
		{Name: "LimitRanger", On: true, New: plain(func(e *Env) admission.Plugin { return &LimitRanger{Objects: e.Objects} })},
		{Name: "ServiceAccount", On: true, New: plain(func(e *Env) admission.Plugin { return &ServiceAccount{Objects: e.Objects, Clock: e.Clock} })},
		{Name: "NodeRestriction", On: true, New: plain(func(e *Env) admission.Plugin {
			return &NodeRestriction{Objects: e.Objects, Authorizer: e.Authorizer}
		})},
		{Name: "TaintNodesByCondition", On: true, New: plain(func(*Env) admission.Plugin { return TaintNodesByCondition{} })},
		{Name: "AlwaysPullImages", New: plain(func(*Env) admission.Plugin { return AlwaysPullImages{} })},
		{Name: "ImagePolicyWebhook", New: func(e *Env, config []byte) (admission.Plugin, error) {
			return imagepolicy.New(config, e.Webhooks, e.Clock)
		}},
		{Name: "PodSecurity", On: true, New: func(e *Env, config []byte) (admission.Plugin, error) {
			return NewPodSecurity(e.Objects, config, e.Registerer)
		}},
		{Name: "PodSecurityPolicy", New: plain(func(e *Env) admission.Plugin {
			return &podsecuritypolicy.Plugin{Objects: e.Objects, Authorizer: e.Authorizer}
		})},
		{Name: "PodNodeSelector", New: func(e *Env, config []byte) (admission.Plugin, error) { return NewPodNodeSelector(e.Objects, config) }},
		{Name: "Priority", On: true, New: plain(func(e *Env) admission.Plugin { return &Priority{Objects: e.Objects} })},
		{Name: "DefaultTolerationSeconds", On: true, New: plain(func(*Env) admission.Plugin { return &DefaultTolerationSeconds{} })},
		{Name: "PodTolerationRestriction", New: func(e *Env, config []byte) (admission.Plugin, error) {
			return NewPodTolerationRestriction(e.Objects, config)
		}},
		{Name: "DenyEscalatingExec", New: plain(func(*Env) admission.Plugin { return &DenyExec{Title: "DenyEscalatingExec"} })},
		{Name: "DenyExecOnPrivileged", New: plain(func(*Env) admission.Plugin { return &DenyExec{Title: "DenyExecOnPrivileged"} })},
		{Name: "EventRateLimit", New: func(e *Env, config []byte) (admission.Plugin, error) { return NewEventRateLimit(config, e.Clock) }},
		{Name: "ExtendedResourceToleration", New: plain(func(*Env) admission.Plugin { return ExtendedResourceToleration{} })},
		{Name: "PersistentVolumeLabel", New: func(_ *Env, config []byte) (admission.Plugin, error) { return NewPersistentVolumeLabel(config) }},
		{Name: "DefaultStorageClass", On: true, New: plain(func(e *Env) admission.Plugin { return &DefaultStorageClass{Objects: e.Objects} })},
		{Name: "StorageObjectInUseProtection", On: true, New: plain(func(*Env) admission.Plugin { return StorageObjectInUseProtection{} })},
		{Name: "PodGroupProtection", On: true, New: plain(func(*Env) admission.Plugin { return PodGroupProtection{} })},
		{Name: "OwnerReferencesPermissionEnforcement", New: plain(func(e *Env) admission.Plugin {
			return &OwnerReferencesPermissionEnforcement{Authorizer: e.Authorizer, Kinds: e.Kinds}
		})},
		{Name: "PersistentVolumeClaimResize", On: true, New: plain(func(e *Env) admission.Plugin {
			return &PersistentVolumeClaimResize{Objects: e.Objects}
		})},
		{Name: "RuntimeClass", On: true, New: plain(func(e *Env) admission.Plugin { return &RuntimeClass{Objects: e.Objects} })},
		{Name: "CertificateApproval", On: true, New: plain(func(e *Env) admission.Plugin { return &CertificateApproval{Authorizer: e.Authorizer} })},
		{Name: "CertificateSigning", On: true, New: plain(func(e *Env) admission.Plugin { return &CertificateSigning{Authorizer: e.Authorizer} })},
		{Name: "ClusterTrustBundleAttest", On: true, New: plain(func(e *Env) admission.Plugin {
			return &ClusterTrustBundleAttest{Authorizer: e.Authorizer}
		})},
		{Name: "CertificateSubjectRestriction", On: true, New: plain(func(*Env) admission.Plugin { return CertificateSubjectRestriction{} })},
		{Name: "DefaultIngressClass", On: true, New: plain(func(e *Env) admission.Plugin { return &DefaultIngressClass{Objects: e.Objects} })},
		{Name: "DenyServiceExternalIPs", New: plain(func(*Env) admission.Plugin { return DenyServiceExternalIPs{} })},
		{Name: "PodTopologyLabels", On: true, New: plain(func(e *Env) admission.Plugin { return &PodTopologyLabels{Objects: e.Objects} })},
		{Name: "PodGroupWorkloadExists", On: true, New: plain(func(e *Env) admission.Plugin { return &PodGroupWorkloadExists{Objects: e.Objects} })},
		{Name: "NodeDeclaredFeatureValidator", On: true, New: plain(func(e *Env) admission.Plugin {
			return &NodeDeclaredFeatureValidator{Objects: e.Objects, Version: version.MajorMinor(1, 36)}
		})},
		{Name: "JobValidation", On: true, New: plain(func(e *Env) admission.Plugin { return &JobValidation{Objects: e.Objects} })},
		{Name: "PodResizeValidator", On: true, New: plain(func(e *Env) admission.Plugin { return &PodResizeValidator{Objects: e.Objects} })},
		// The webhooks, the policies, quota and refusal stay at the end: what others refuse or change must not be counted.
		{Name: "MutatingAdmissionPolicy", On: true, New: configured("MutatingAdmissionPolicy")},
		{Name: "MutatingAdmissionWebhook", On: true, New: configured("MutatingAdmissionWebhook")},
		{Name: "Initializers", New: plain(func(e *Env) admission.Plugin {
			return &Initializers{Objects: e.Objects, Authorizer: e.Authorizer, Kinds: e.Kinds}
		})},
		{Name: "ValidatingAdmissionPolicy", On: true, New: configured("ValidatingAdmissionPolicy")},
		{Name: "ValidatingAdmissionWebhook", On: true, New: configured("ValidatingAdmissionWebhook")},
		{Name: "ResourceQuota", On: true, New: func(e *Env, config []byte) (admission.Plugin, error) {
			return NewResourceQuota(e.Objects, config, e.Clock)
		}},
		{Name: "AlwaysDeny", New: plain(func(*Env) admission.Plugin { return AlwaysDeny{} })},
	}
}

// configured is a plugin that the API configures.
func configured(name string) func(*Env, []byte) (admission.Plugin, error) {
	return func(e *Env, config []byte) (admission.Plugin, error) {
		switch {
		case config != nil:
			return nil, errors.New("it takes no configuration")
		case e.Configured[name] == nil:
			return nil, errors.New("it is not available here")
		}
		return e.Configured[name], nil
	}
}
