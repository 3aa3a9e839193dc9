package flow

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/services/apiserver/internal/kind/flowcontrol"
)

// Objects is a configuration.
type Objects struct {
	Schemas []*flowcontrolv1.FlowSchema
	Levels  []*flowcontrolv1.PriorityLevelConfiguration
}

// Mandatory are the objects that must be as they are.
func Mandatory() Objects {
	var o Objects
	for _, name := range []string{flowcontrolv1.FlowSchemaNameExempt, flowcontrolv1.FlowSchemaNameCatchAll} {
		o.schema(name, *flowcontrol.MandatorySchema(name))
		o.level(name, *flowcontrol.MandatoryLevel(name)) // they have the same names
	}
	return o
}

func (o *Objects) schema(name string, spec flowcontrolv1.FlowSchemaSpec) {
	o.Schemas = append(o.Schemas, &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
}

func (o *Objects) level(name string, spec flowcontrolv1.PriorityLevelConfigurationSpec) {
	o.Levels = append(o.Levels, &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
}

// Suggested are the objects that a cluster begins with, as Kubernetes has them, and that its administrators may change.
func Suggested() Objects {
	var o Objects
	for _, l := range []struct {
		name                          string
		shares, lendable              int32
		queues, handSize, queueLength int32
	}{
		{"system", 30, 33, 64, 6, 50},
		{"node-high", 40, 25, 64, 6, 50},
		{"leader-election", 10, 0, 16, 4, 50},
		{"workload-high", 40, 50, 128, 6, 50},
		{"workload-low", 100, 90, 128, 6, 50},
		{"global-default", 20, 50, 128, 6, 50},
	} {
		o.level(l.name, flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: ptr.To(l.shares), LendablePercent: ptr.To(l.lendable),
				LimitResponse: flowcontrolv1.LimitResponse{
					Type: flowcontrolv1.LimitResponseTypeQueue,
					Queuing: &flowcontrolv1.QueuingConfiguration{
						Queues: l.queues, HandSize: l.handSize, QueueLengthLimit: l.queueLength,
					},
				},
			},
		})
	}
	nodes, everywhere := []flowcontrolv1.Subject{group("system:nodes")}, []string{flowcontrolv1.NamespaceEvery}
	leases := resources("coordination.k8s.io", everywhere, false, []string{"get", "create", "update"}, "leases")
	for _, s := range []struct {
		name, level string
		precedence  int32
		by          flowcontrolv1.FlowDistinguisherMethodType
		rules       []flowcontrolv1.PolicyRulesWithSubjects
	}{
		{"probes", flowcontrolv1.PriorityLevelConfigurationNameExempt, 2, "", rules([]flowcontrolv1.Subject{group("system:unauthenticated"), group("system:authenticated")},
			nonResources([]string{"get"}, "/healthz", "/readyz", "/livez"))},
		{"system-leader-election", "leader-election", 100, flowcontrolv1.FlowDistinguisherMethodByUserType, rules(
			[]flowcontrolv1.Subject{user("system:kube-controller-manager"), user("system:kube-scheduler"), account("kube-system", "*")}, resourceRules(leases))},
		{"system-node-high", "node-high", 400, flowcontrolv1.FlowDistinguisherMethodByUserType, rules(nodes, resourceRules(
			resources("", everywhere, true, []string{flowcontrolv1.VerbAll}, "nodes", "nodes/status"),
			resources("coordination.k8s.io", everywhere, false, []string{flowcontrolv1.VerbAll}, "leases")))},
		{"system-nodes", "system", 500, flowcontrolv1.FlowDistinguisherMethodByUserType, rules(nodes, everything())},
		{"kube-controller-manager", "workload-high", 800, flowcontrolv1.FlowDistinguisherMethodByNamespaceType, rules(
			[]flowcontrolv1.Subject{user("system:kube-controller-manager")}, everything())},
		{"kube-scheduler", "workload-high", 800, flowcontrolv1.FlowDistinguisherMethodByNamespaceType, rules(
			[]flowcontrolv1.Subject{user("system:kube-scheduler")}, everything())},
		{"kube-system-service-accounts", "workload-high", 900, flowcontrolv1.FlowDistinguisherMethodByNamespaceType, rules(
			[]flowcontrolv1.Subject{account("kube-system", "*")}, everything())},
		{"service-accounts", "workload-low", 9000, flowcontrolv1.FlowDistinguisherMethodByUserType, rules(
			[]flowcontrolv1.Subject{group("system:serviceaccounts")}, everything())},
		{"global-default", "global-default", 9900, flowcontrolv1.FlowDistinguisherMethodByUserType, rules(
			[]flowcontrolv1.Subject{group("system:unauthenticated"), group("system:authenticated")}, everything())},
	} {
		spec := flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: s.level},
			MatchingPrecedence:         s.precedence, Rules: s.rules,
		}
		if s.by != "" {
			spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: s.by}
		}
		o.schema(s.name, spec)
	}
	return o
}

// requests are the requests that a rule is for.
type requests struct {
	resources    []flowcontrolv1.ResourcePolicyRule
	nonResources []flowcontrolv1.NonResourcePolicyRule
}

func rules(subjects []flowcontrolv1.Subject, r requests) []flowcontrolv1.PolicyRulesWithSubjects {
	return []flowcontrolv1.PolicyRulesWithSubjects{{Subjects: subjects, ResourceRules: r.resources, NonResourceRules: r.nonResources}}
}

func resourceRules(r ...flowcontrolv1.ResourcePolicyRule) requests { return requests{resources: r} }

func resources(apiGroup string, namespaces []string, clusterScope bool, verbs []string, names ...string) flowcontrolv1.ResourcePolicyRule {
	return flowcontrolv1.ResourcePolicyRule{
		Verbs: verbs, APIGroups: []string{apiGroup}, Resources: names, Namespaces: namespaces, ClusterScope: clusterScope,
	}
}

func nonResources(verbs []string, urls ...string) requests {
	return requests{nonResources: []flowcontrolv1.NonResourcePolicyRule{{Verbs: verbs, NonResourceURLs: urls}}}
}

func everything() requests {
	return requests{
		[]flowcontrolv1.ResourcePolicyRule{resources(flowcontrolv1.APIGroupAll, []string{flowcontrolv1.NamespaceEvery}, true, []string{flowcontrolv1.VerbAll}, flowcontrolv1.ResourceAll)},
		[]flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{flowcontrolv1.VerbAll}, NonResourceURLs: []string{flowcontrolv1.NonResourceAll}}},
	}
}

func user(name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: rbacv1.UserKind, User: &flowcontrolv1.UserSubject{Name: name}}
}

func group(name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: rbacv1.GroupKind, Group: &flowcontrolv1.GroupSubject{Name: name}}
}

func account(namespace, name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: rbacv1.ServiceAccountKind, ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: namespace, Name: name}}
}
