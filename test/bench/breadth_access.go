package main

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// bindings are how many roles, each with its binding, there are in the namespace.
const bindings = 300

// accessRequests are what asks who somebody is and what they may, and what is asked by those who are no administrators.
func accessRequests(ctx context.Context, w *wide) ([]request, error) {
	if err := w.roles(ctx); err != nil {
		return nil, err
	}
	accounts := w.client.CoreV1().ServiceAccounts(w.namespace)
	asked := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}}
	made, err := accounts.CreateToken(ctx, "default", asked, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(w.config)
	config.BearerToken = made.Status.Token
	account, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if _, err := w.client.CoreV1().ConfigMaps(w.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: ofName("read")}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	user := "system:serviceaccount:" + w.namespace + ":default"
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + w.namespace, "system:authenticated"}
	review := func(name, verb string) func(context.Context, int, int) error {
		return func(ctx context.Context, worker, i int) error {
			_, err := w.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user, Groups: groups, ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: w.namespace, Verb: verb, Version: "v1", Resource: "configmaps", Name: fmt.Sprintf("%s-%d-%d", name, worker, i)},
			}}, metav1.CreateOptions{})
			return err
		}
	}
	return []request{
		{name: "token request", call: func(ctx context.Context, _, _ int) error {
			_, err := accounts.CreateToken(ctx, "default", asked, metav1.CreateOptions{})
			return err
		}},
		{name: "token review", call: func(ctx context.Context, _, _ int) error {
			review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: made.Status.Token}}
			_, err := w.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
			return err
		}},
		{name: "subject access review, allowed", call: review("any", "get")},
		{name: "subject access review, denied", call: review("any", "delete")},
		{name: "self subject access review", call: func(ctx context.Context, _, _ int) error {
			_, err := account.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: w.namespace, Verb: "delete", Version: "v1", Resource: "configmaps"},
			}}, metav1.CreateOptions{})
			return err
		}},
		{name: "self subject rules review", call: func(ctx context.Context, _, _ int) error {
			_, err := account.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
				Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: w.namespace}}, metav1.CreateOptions{})
			return err
		}},
		{name: "config map get by a service account", call: func(ctx context.Context, _, _ int) error {
			_, err := account.CoreV1().ConfigMaps(w.namespace).Get(ctx, "read", metav1.GetOptions{})
			return err
		}},
		{name: "role binding create", call: func(ctx context.Context, worker, i int) error {
			_, err := w.client.RbacV1().RoleBindings(w.namespace).Create(ctx, binding(fmt.Sprintf("more-%d-%d", worker, i), "somebody", "role-1"), metav1.CreateOptions{})
			return err
		}},
		{name: "service account create", most: 60, call: func(ctx context.Context, worker, i int) error {
			_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: ofName("account-%d-%d", worker, i)}, metav1.CreateOptions{})
			return err
		}},
	}, nil
}

// roles makes roles and their bindings; the last lets the account that asks get config maps.
func (w *wide) roles(ctx context.Context) error {
	return w.each(ctx, bindings, func(ctx context.Context, i int) error {
		rules := []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods", "services"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, ResourceNames: []string{fmt.Sprint("app-", i)}, Verbs: []string{"update", "patch"}},
		}
		subject := fmt.Sprint("account-", i)
		if i == bindings-1 {
			rules[0].Resources, subject = []string{"configmaps"}, "default"
		}
		role := &rbacv1.Role{ObjectMeta: ofName("role-%d", i), Rules: rules}
		if _, err := w.client.RbacV1().Roles(w.namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err := w.client.RbacV1().RoleBindings(w.namespace).Create(ctx, binding(fmt.Sprint("binding-", i), subject, role.Name), metav1.CreateOptions{})
		return err
	})
}

func binding(name, account, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: account}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
	}
}
