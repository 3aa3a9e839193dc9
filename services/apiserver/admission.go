package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/admission/plugin"
	"howdah.dev/services/apiserver/internal/admission/policy"
	"howdah.dev/services/apiserver/internal/admission/webhooks"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/bootstrap"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/initializers"
	"howdah.dev/services/apiserver/internal/itself"
	"howdah.dev/services/apiserver/internal/ledger"
	"howdah.dev/services/apiserver/internal/objects"
	"howdah.dev/services/apiserver/internal/podnet"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/apiserver/internal/webhook"
)

// admission returns the chain of the plugins that are switched on, and behind them those that always run.
func (s *Server) admission(authorizer authz.Authorizer, always ...admission.Plugin) (*admission.Chain, error) {
	config, err := plugin.ReadConfig(s.cfg.AdmissionConfig)
	if err != nil {
		return nil, err
	}
	identities := map[string]*webhook.Identities{}
	for _, name := range []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"} {
		if identities[name], err = plugin.WebhookIdentities(config[name]); err != nil {
			return nil, fmt.Errorf("admission plugin %s: %w", name, err)
		}
	}
	caller := webhook.New(webhook.Config{Dialer: &podnet.Dialer{Objects: s.known, Nodes: s.cfg.NodeDialer}, Registerer: s.cfg.Registerer})
	plugins, err := plugin.Build(&plugin.Env{
		Objects: s.known, Authorizer: authorizer, Namespaces: namespaces{s}, Kinds: kinds{s.known.Table}, Clock: s.cfg.Clock, Registerer: s.cfg.Registerer,
		Webhooks: caller, Configured: s.configured(authorizer, caller, identities),
	}, plugin.Settings{Enabled: s.cfg.EnabledAdmission, Disabled: s.cfg.DisabledAdmission, Config: config})
	if err != nil {
		return nil, err
	}
	return admission.NewChain(admission.NewMetrics(s.cfg.Registerer), append(plugins, always...)...), nil
}

// configured returns the admission plugins that objects of the API configure.
func (s *Server) configured(authorizer authz.Authorizer, caller *webhook.Caller, identities map[string]*webhook.Identities) map[string]admission.Plugin {
	mutating, validating := webhooks.New(webhooks.Config{
		Table: s.known.Table, Cache: s.cache, Objects: s.known, Authorizer: authorizer, Caller: caller,
		Mutating: identities["MutatingAdmissionWebhook"], Validating: identities["ValidatingAdmissionWebhook"], Registerer: s.cfg.Registerer,
	})
	mutates, validates := policy.New(policy.Config{
		Table: s.known.Table, Cache: s.cache, Objects: s.known, Authorizer: authorizer, Types: s.fields.TypesOf, Registerer: s.cfg.Registerer,
	})
	plugins := map[string]admission.Plugin{}
	for _, p := range []admission.Plugin{mutates, mutating, validates, validating} {
		plugins[p.Name()] = p
	}
	return plugins
}

// ledger returns what commits writes with their quota usage.
func (s *Server) ledger(table *registry.Table, st store.Writer) *ledger.Ledger {
	quotas := table.Known(corev1.SchemeGroupVersion.WithResource("resourcequotas"))
	track := func(before, after *corev1.ResourceQuota) {
		manager, err := s.fields.For(quotas, "status")
		if err != nil { // the schema of a built-in kind is always there
			slog.Error("a quota's fields cannot be tracked", "err", err)
			return
		}
		manager.Update(before, after, itself.Name)
	}
	return ledger.New(ledger.Config{Kind: quotas.Kind, Cache: s.cache, Store: st, Manager: itself.Name, Track: track, Registerer: s.cfg.Registerer})
}

// definitions returns the custom kinds that come with the admission plugins that are switched on.
func (s *Server) definitions() []*apiextensionsv1.CustomResourceDefinition {
	if slices.Contains(s.cfg.EnabledAdmission, "PodPreset") {
		return []*apiextensionsv1.CustomResourceDefinition{bootstrap.PodPresets()}
	}
	return nil
}

// fixedDefinitions returns the removed kinds of Kubernetes' own groups that come with the admission plugins that are switched on.
func (s *Server) fixedDefinitions() []*apiextensionsv1.CustomResourceDefinition {
	var definitions []*apiextensionsv1.CustomResourceDefinition
	if slices.Contains(s.cfg.EnabledAdmission, "PodSecurityPolicy") {
		definitions = append(definitions, bootstrap.PodSecurityPolicies())
	}
	if s.initializes() {
		definitions = append(definitions, bootstrap.InitializerConfigurations())
	}
	return definitions
}

// initializes reports whether objects may wait for initializers.
func (s *Server) initializes() bool { return slices.Contains(s.cfg.EnabledAdmission, "Initializers") }

// waiting tells which objects wait for initializers, and nothing where none can.
func (s *Server) waiting() objects.Initializers {
	if !s.initializes() {
		return nil
	}
	return initializers.Waiting{}
}

// served returns the object service as it is served to all who are not the server itself.
func (s *Server) served() apiv1.ObjectServiceServer {
	if !s.initializes() {
		return s.reviews
	}
	return &initializers.Server{ObjectServiceServer: s.reviews, Table: s.known.Table, Cache: s.cache, Offer: codec.Offer{CBOR: s.cfg.CBOR}}
}

// kinds implements plugin.Kinds with the table of the API.
type kinds struct{ table *registry.Table }

// ResourceOf implements plugin.Kinds.
func (k kinds) ResourceOf(gvk schema.GroupVersionKind) (schema.GroupVersionResource, bool, bool) {
	res := k.table.FindKind(gvk)
	if res == nil {
		return schema.GroupVersionResource{}, false, false
	}
	return res.GVR, res.Kind.Namespaced, true
}

// namespaces implements plugin.Namespaces with the server's own API.
type namespaces struct{ s *Server }

// CreateNamespace implements plugin.Namespaces.
func (n namespaces) CreateNamespace(ctx context.Context, name string) error {
	body, err := json.Marshal(&corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name},
	})
	if err != nil {
		return err
	}
	ctx = itself.Context(ctx)
	_, err = n.s.objects.Create(ctx, &apiv1.CreateRequest{Version: "v1", Resource: "namespaces", Object: body, ContentType: "application/json"})
	if err = apistatus.FromGRPC(err); apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
