package controllers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/clusterroleaggregation"
)

// TestRolesAddUp labels a role to be added to view: view, edit and admin come to hold its rules, and lose them with it.
func TestRolesAddUp(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "clusterroleaggregation")
	kind := clusterroleaggregation.Kind
	holds := func(roles []*rbacv1.ClusterRole, name string) bool {
		return slices.ContainsFunc(roles, func(r *rbacv1.ClusterRole) bool {
			return r.Name == name && slices.ContainsFunc(r.Rules, func(p rbacv1.PolicyRule) bool { return slices.Contains(p.Resources, "widgets") })
		})
	}
	create(t, client, kind, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"widgets"}, Verbs: []string{"get"}}},
	})
	await(t, client, kind, "the rule in all three", func(roles []*rbacv1.ClusterRole) bool {
		return holds(roles, "view") && holds(roles, "edit") && holds(roles, "admin") && !holds(roles, "system:aggregate-to-view")
	})
	await(t, client, kind, "rules that are the controller's own", func(roles []*rbacv1.ClusterRole) bool {
		return slices.ContainsFunc(roles, func(r *rbacv1.ClusterRole) bool {
			return r.Name == "view" && slices.ContainsFunc(r.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
				return m.Manager == "clusterrole-aggregation-controller" && m.Operation == metav1.ManagedFieldsOperationApply && string(m.FieldsV1.Raw) == `{"f:rules":{}}`
			})
		})
	})
	if err := object.For(client, kind).Delete(t.Context(), "", "widgets", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, kind, "the rule in none", func(roles []*rbacv1.ClusterRole) bool {
		return !holds(roles, "view") && !holds(roles, "edit") && !holds(roles, "admin")
	})
}

// TestSecretsGetTokens makes a Secret that asks for a token, removes another that the account lists, and then the account.
func TestSecretsGetTokens(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "accounttoken,rootca")
	account := create(t, client, object.ServiceAccount, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bot"}, Secrets: []corev1.ObjectReference{{Name: "bot-token"}, {Name: "old-token"}}})
	for _, name := range []string{"bot-token", "old-token"} {
		create(t, client, object.Secret, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "bot"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		})
	}
	full := func(s *corev1.Secret) bool {
		return len(s.Data["token"]) > 0 && string(s.Data["ca.crt"]) == "the CA" && string(s.Data["namespace"]) == "default" && s.Annotations[corev1.ServiceAccountUIDKey] == string(account.UID)
	}
	await(t, client, object.Secret, "two tokens", func(secrets []*corev1.Secret) bool {
		return len(secrets) == 2 && full(secrets[0]) && full(secrets[1])
	})
	if err := object.For(client, object.Secret).Delete(t.Context(), "default", "old-token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, object.ServiceAccount, "one Secret of the account", func(accounts []*corev1.ServiceAccount) bool {
		i := slices.IndexFunc(accounts, func(a *corev1.ServiceAccount) bool { return a.Name == "bot" })
		return i >= 0 && len(accounts[i].Secrets) == 1 && accounts[i].Secrets[0].Name == "bot-token"
	})
	if err := object.For(client, object.ServiceAccount).Delete(t.Context(), "default", "bot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, object.Secret, "no Secret", func(secrets []*corev1.Secret) bool { return len(secrets) == 0 })
}
