package aggregate

import (
	"context"
	"log/slog"
	"math"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/itself"
)

// managed is the label of the APIServices that are made here, with the values for built-in and for custom kinds.
const (
	managed       = "kube-aggregator.kubernetes.io/automanaged"
	managedStart  = "onstart"
	managedAlways = "true"
)

// groupPriorities are those of Kubernetes; what is not named has that of custom kinds.
var groupPriorities = []struct {
	group    string
	priority int32
}{
	{"", 18000},
	{"apps", 17800},
	{"events.k8s.io", 17750},
	{"authentication.k8s.io", 17700},
	{"authorization.k8s.io", 17600},
	{"autoscaling", 17500},
	{"batch", 17400},
	{"certificates.k8s.io", 17300},
	{"networking.k8s.io", 17200},
	{"extensions", 17150},
	{"policy", 17100},
	{"rbac.authorization.k8s.io", 17000},
	{"storage.k8s.io", 16800},
	{"apiextensions.k8s.io", 16700},
	{"admissionregistration.k8s.io", 16700},
	{"scheduling.k8s.io", 16600},
	{"coordination.k8s.io", 16500},
	{"node.k8s.io", 16300},
	{"discovery.k8s.io", 16200},
	{"flowcontrol.apiserver.k8s.io", 16100},
	{"resource.k8s.io", 16200},
}

// customPriority and customVersion are the priorities of custom kinds' groups and versions.
const (
	customPriority = 1000
	customVersion  = 100
)

// versionPriorities order the versions of built-in groups.
var versionPriorities = map[string]int32{"v1": 15, "v2": 30, "v1beta2": 11, "v1beta1": 9}

// LocalGroupPriority is the priority of a group that is served here, among all groups. The core, which has documents of its own, and that of API services stand
// before all others; extensions, whose kinds have all moved elsewhere, behind them.
func LocalGroupPriority(group string) int32 {
	switch group {
	case "", apiregistrationv1.GroupName:
		return math.MaxInt32
	case moved:
		return 0
	}
	return priorityOf(group)
}

// moved is the group whose kinds have all moved elsewhere.
const moved = "extensions"

// LocalVersionPriority is the priority of a version that is served here, in its group.
func LocalVersionPriority(gv schema.GroupVersion) int32 {
	return local(gv, priorityOf(gv.Group) == customPriority).Spec.VersionPriority
}

func priorityOf(group string) int32 {
	for _, g := range groupPriorities {
		if g.group == group {
			return g.priority
		}
	}
	return customPriority
}

// local returns the APIService of a group version that is served here.
func local(gv schema.GroupVersion, custom bool) *apiregistrationv1.APIService {
	s := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group, Labels: map[string]string{managed: managedStart}},
		Spec:       apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: customPriority, VersionPriority: customVersion},
	}
	if custom {
		s.Labels[managed] = managedAlways
		return s
	}
	s.Spec.GroupPriorityMinimum = priorityOf(gv.Group)
	if p, ok := versionPriorities[gv.Version]; ok {
		s.Spec.VersionPriority = p
	}
	if gv.Version == "v1" && (gv.Group == "resource.k8s.io" || gv.Group == "flowcontrol.apiserver.k8s.io") {
		s.Spec.VersionPriority = 21 // they had many versions before
	}
	switch gv {
	case schema.GroupVersion{Group: "resource.k8s.io", Version: "v1beta2"}:
		s.Spec.VersionPriority = 15
	case schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1beta1"}:
		s.Spec.VersionPriority = 12
	}
	if gv == (schema.GroupVersion{Version: "v1"}) {
		s.Spec.VersionPriority = 1
	}
	return s
}

// served returns the group versions of the table, and whether custom kinds alone make them up.
func (a *Aggregator) served() map[schema.GroupVersion]bool {
	out := map[schema.GroupVersion]bool{
		{Group: "authentication.k8s.io", Version: "v1"}: false, {Group: "authorization.k8s.io", Version: "v1"}: false,
	}
	for _, r := range a.cfg.Table.Resources() {
		gv, custom := r.GVK.GroupVersion(), r.Kind.Custom != nil
		if before, seen := out[gv]; gv.Group != apiregistrationv1.GroupName && (!seen || before) {
			out[gv] = custom
		}
	}
	return out
}

// Register makes the APIServices of what is served now, once; Run goes on from there, and makes good what failed.
func (a *Aggregator) Register(ctx context.Context) {
	generation := a.cfg.Table.Generation()
	if a.register(itself.Context(ctx)) {
		a.registered.Store(generation)
	}
}

// register makes the APIServices of what is served here and publishes what extension API servers must know. It reports whether all went well.
func (a *Aggregator) register(ctx context.Context) bool {
	told := a.publish(ctx)
	return a.keep(ctx) && told
}

// keep has the APIServices be those of what is served here, and reports whether all went well. Those of built-in kinds are made once, so that whoever
// changes or removes one is left alone. Those of custom kinds stay as they are made, and go with the last kind, unless somebody has taken the label off or
// made their own before.
func (a *Aggregator) keep(ctx context.Context) bool {
	ok := true
	present := map[string]*apiregistrationv1.APIService{}
	for _, s := range a.all() {
		present[s.Name] = s
	}
	served := a.served()
	for gv, custom := range served {
		want := local(gv, custom)
		switch have := present[want.Name]; {
		case have == nil && (custom || !a.begun.Load()):
			ok = a.create(ctx, want) && ok
		case have != nil && custom && have.Labels[managed] == managedAlways && !reflect.DeepEqual(have.Spec, want.Spec):
			ok = a.restore(ctx, have, want) && ok
		}
	}
	for name, s := range present {
		_, here := served[schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}]
		if here || s.Labels[managed] != managedAlways || s.Spec.Service != nil {
			continue
		}
		_, err := a.cfg.API.Delete(ctx, &apiv1.DeleteRequest{Group: apiregistrationv1.GroupName, Version: "v1", Resource: "apiservices", Name: name})
		ok = a.done(ctx, "remove an API version", name, err, apierrors.IsNotFound) && ok
	}
	if ok {
		a.begun.Store(true)
	}
	return ok
}

func (a *Aggregator) create(ctx context.Context, s *apiregistrationv1.APIService) bool {
	_, err := a.cfg.API.Create(ctx, &apiv1.CreateRequest{
		Group: apiregistrationv1.GroupName, Version: "v1", Resource: "apiservices", Object: encode(s), FieldManager: itself.Name,
	})
	return a.done(ctx, "register an API version", s.Name, err, apierrors.IsAlreadyExists)
}

// restore takes back what somebody has changed.
func (a *Aggregator) restore(ctx context.Context, have, want *apiregistrationv1.APIService) bool {
	_, err := a.cfg.API.Patch(ctx, &apiv1.PatchRequest{
		Group: apiregistrationv1.GroupName, Version: "v1", Resource: "apiservices", Name: want.Name, ContentType: "application/merge-patch+json",
		FieldManager: itself.Name, Object: encode(map[string]any{
			"metadata": map[string]any{"uid": have.UID, "resourceVersion": have.ResourceVersion},
			"spec": map[string]any{
				"groupPriorityMinimum": want.Spec.GroupPriorityMinimum, "versionPriority": want.Spec.VersionPriority,
				"service": nil, "caBundle": nil, "insecureSkipTLSVerify": nil,
			},
		}),
	})
	return a.done(ctx, "restore an API version", want.Name, err, func(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) })
}

// done logs an error that is none of those that another apiserver, being first, makes.
func (a *Aggregator) done(ctx context.Context, what, name string, err error, first func(error) bool) bool {
	if err == nil || first(err) || ctx.Err() != nil {
		return true
	}
	slog.WarnContext(ctx, what, "name", name, "err", err)
	return false
}

// setCondition returns the conditions with the Available one replaced, and whether anything changed.
func setCondition(old []apiregistrationv1.APIServiceCondition, c apiregistrationv1.APIServiceCondition) ([]apiregistrationv1.APIServiceCondition, bool) {
	i := slices.IndexFunc(old, func(o apiregistrationv1.APIServiceCondition) bool { return o.Type == c.Type })
	if i < 0 {
		return append(slices.Clone(old), c), true
	}
	before := old[i]
	if before.Status == c.Status {
		c.LastTransitionTime = before.LastTransitionTime
	}
	out := slices.Clone(old)
	out[i] = c
	return out, before.Status != c.Status || before.Reason != c.Reason || before.Message != c.Message
}
