package joined

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"howdah.dev/services/federation/api"
)

// tokenTimeout is how long the token of an account may take to be there.
const tokenTimeout = time.Minute

// carrying are the verbs by which objects are carried.
var carrying = []string{"get", "list", "watch", "create", "patch", "delete"}

// workloads are the resources that every account may carry, by group.
var workloads = map[string][]string{
	"":                  {"configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "secrets", "serviceaccounts", "services", "limitranges", "resourcequotas"},
	"apps":              {"daemonsets", "deployments", "replicasets", "statefulsets"},
	"autoscaling":       {"horizontalpodautoscalers"},
	"batch":             {"cronjobs", "jobs"},
	"networking.k8s.io": {"ingresses", "networkpolicies"},
	"policy":            {"poddisruptionbudgets"},
}

// rules are the rights of the account that is made.
func (j *Join) rules() []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		{NonResourceURLs: []string{"/readyz", "/version", "/api", "/api/*", "/apis", "/apis/*"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list"}}, // how much room there is
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: carrying},
	}
	if j.AllResources {
		return append(rules, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: carrying})
	}
	for group, resources := range workloads {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: carrying})
	}
	for _, r := range j.Resources {
		resource, group, _ := strings.Cut(r, ".")
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: carrying})
	}
	return rules
}

// roleName is what the role and its binding in the member are called; the account has the cluster's name.
func roleName(name string) string { return api.Manager + ":" + name }

// makeAccount makes the account in the member, or brings its rights up to date, and returns its token.
func makeAccount(ctx context.Context, client kubernetes.Interface, name string, rules []rbacv1.PolicyRule) ([]byte, error) {
	meta := metav1.ObjectMeta{Namespace: api.Namespace, Name: name}
	if err := create(ctx, "the namespace "+api.Namespace, namespace(), client.CoreV1().Namespaces().Create); err != nil {
		return nil, err
	}
	if err := create(ctx, "the account", &corev1.ServiceAccount{ObjectMeta: meta}, client.CoreV1().ServiceAccounts(api.Namespace).Create); err != nil {
		return nil, err
	}
	roles := client.RbacV1().ClusterRoles()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: roleName(name)}, Rules: rules}
	if _, err := roles.Create(ctx, role, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		if _, err := roles.Update(ctx, role, metav1.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("update the account's role: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("create the account's role: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: roleName(name)}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roleName(name)},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: api.Namespace, Name: name}},
	}
	if err := create(ctx, "the binding of the account's role", binding, client.RbacV1().ClusterRoleBindings().Create); err != nil {
		return nil, err
	}
	secrets := client.CoreV1().Secrets(api.Namespace)
	secret := &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeServiceAccountToken}
	secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: name}
	if err := create(ctx, "the account's token", secret, secrets.Create); err != nil {
		return nil, err
	}
	var token []byte
	err := await(ctx, "the account's token", tokenTimeout, func(ctx context.Context) (bool, error) {
		s, err := secrets.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		token = s.Data[corev1.ServiceAccountTokenKey]
		return len(token) > 0, nil
	})
	return token, err
}

// RemoveAccount deletes what was made in a member.
func RemoveAccount(ctx context.Context, member *rest.Config, name string) error {
	client, err := kubernetes.NewForConfig(member)
	if err != nil {
		return err
	}
	for what, remove := range map[string]func(context.Context, string, metav1.DeleteOptions) error{
		"the account's token": client.CoreV1().Secrets(api.Namespace).Delete,
		"the account":         client.CoreV1().ServiceAccounts(api.Namespace).Delete,
	} {
		if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s: %w", what, err)
		}
	}
	for what, remove := range map[string]func(context.Context, string, metav1.DeleteOptions) error{
		"the binding of the account's role": client.RbacV1().ClusterRoleBindings().Delete,
		"the account's role":                client.RbacV1().ClusterRoles().Delete,
	} {
		if err := remove(ctx, roleName(name), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s: %w", what, err)
		}
	}
	return nil
}
