package plugin

import (
	"errors"

	"howdah.dev/services/apiserver/internal/admission"
)

// Table returns every plugin in the order in which Kubernetes runs them. Plugins that Kubernetes has removed stand where they
// used to. Those that are on are Kubernetes' own, and NodeRestriction, without which a node's certificate is worth too much.
func Table() []Row {
	return []Row{
		{Name: "NamespaceLifecycle", On: true, New: plain(func(e *Env) admission.Plugin { return &NamespaceLifecycle{Objects: e.Objects} })},
		{Name: "Initializers", New: removed("initializers (metadata.initializers) are gone from the API since Kubernetes 1.16: use MutatingAdmissionWebhook")},
		{Name: "ServiceAccount", On: true, New: plain(func(e *Env) admission.Plugin { return &ServiceAccount{Objects: e.Objects, Clock: e.Clock} })},
		{Name: "NodeRestriction", On: true, New: plain(func(e *Env) admission.Plugin { return &NodeRestriction{Objects: e.Objects} })},
		{Name: "Priority", On: true, New: plain(func(e *Env) admission.Plugin { return &Priority{Objects: e.Objects} })},
		{Name: "DefaultTolerationSeconds", On: true, New: plain(func(*Env) admission.Plugin { return &DefaultTolerationSeconds{} })},
	}
}

// removed is a plugin that exists by name only: it cannot be switched on.
func removed(why string) func(*Env, []byte) (admission.Plugin, error) {
	return func(*Env, []byte) (admission.Plugin, error) { return nil, errors.New("it cannot be enabled: " + why) }
}
