package bootstrap

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

// ConfigName is the ConfigMap of kube-system with the settings of node agents: a flag of howdah nodeagent is a key. Machines that join, and nodes, may read it.
const ConfigName = "howdah-config"

var (
	roles = object.Kind[*rbacv1.Role]{
		GVK: rbacv1.SchemeGroupVersion.WithKind("Role"), Resource: "roles", Namespaced: true, New: func() *rbacv1.Role { return &rbacv1.Role{} },
	}
	roleBindings = object.Kind[*rbacv1.RoleBinding]{
		GVK: rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), Resource: "rolebindings", Namespaced: true, New: func() *rbacv1.RoleBinding { return &rbacv1.RoleBinding{} },
	}
	clusterRoles = object.Kind[*rbacv1.ClusterRole]{
		GVK: rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), Resource: "clusterroles", New: func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{} },
	}
	clusterRoleBindings = object.Kind[*rbacv1.ClusterRoleBinding]{
		GVK: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), Resource: "clusterrolebindings", New: func() *rbacv1.ClusterRoleBinding { return &rbacv1.ClusterRoleBinding{} },
	}
)

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

var anonymous = rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:anonymous"}

// bindings lead from a token to a certificate, and from that to the next. Names are kubeadm's.
var bindings = []struct {
	name, role string
	subject    rbacv1.Subject
}{
	{"kubeadm:kubelet-bootstrap", "system:node-bootstrapper", group(DefaultGroup)},
	{"kubeadm:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", group(DefaultGroup)},
	{"kubeadm:node-autoapprove-certificate-rotation", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", group("system:nodes")},
	{"kubeadm:get-nodes", "kubeadm:get-nodes", group(DefaultGroup)},
}

// readable are the ConfigMaps that machines read before they are nodes.
var readable = []struct {
	namespace, name, role string
	subjects              []rbacv1.Subject
}{
	{metav1.NamespacePublic, InfoName, "kubeadm:bootstrap-signer-clusterinfo", []rbacv1.Subject{anonymous}},
	{metav1.NamespaceSystem, ConfigName, "howdah:nodes-howdah-config", []rbacv1.Subject{group(DefaultGroup), group("system:nodes")}},
}

// Cluster is what machines that join are told.
type Cluster struct {
	Info
	Settings map[string]string // of node agents, by flag
}

// Ensure makes what machines join by. Roles and bindings that are there stay as they are, and so do settings that are not given.
func Ensure(ctx context.Context, client *object.Client, c Cluster) error {
	kubeconfig, err := c.Kubeconfig()
	if err != nil {
		return err
	}
	if err := EnsureMap(ctx, client, metav1.NamespacePublic, InfoName, map[string]string{InfoKey: kubeconfig}); err != nil {
		return err
	}
	if err := EnsureMap(ctx, client, metav1.NamespaceSystem, ConfigName, c.Settings); err != nil {
		return err
	}
	for _, r := range readable {
		if err := EnsureReader(ctx, client, Reader{Resource: "configmaps", Namespace: r.namespace, Name: r.name, Role: r.role, Subjects: r.subjects}); err != nil {
			return err
		}
	}
	getNodes := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:get-nodes"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}},
	}
	if err := made(object.For(client, clusterRoles).Create(ctx, getNodes)); err != nil {
		return fmt.Errorf("create the ClusterRole %s: %w", getNodes.Name, err)
	}
	for _, b := range bindings {
		if err := made(object.For(client, clusterRoleBindings).Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: b.name}, Subjects: []rbacv1.Subject{b.subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role},
		})); err != nil {
			return fmt.Errorf("create the ClusterRoleBinding %s: %w", b.name, err)
		}
	}
	return nil
}

// made is the error of a creation, but for that of what is there already.
func made[T any](_ T, err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// EnsureMap sets keys of a ConfigMap; other keys stay.
func EnsureMap(ctx context.Context, client *object.Client, namespace, name string, data map[string]string) error {
	configs := object.For(client, object.ConfigMap)
	there, err := configs.Get(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		if _, err = configs.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}); err != nil {
			return fmt.Errorf("create the ConfigMap %s/%s: %w", namespace, name, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("read the ConfigMap %s/%s: %w", namespace, name, err)
	}
	want := maps.Clone(there.Data)
	if want == nil {
		want = map[string]string{}
	}
	maps.Copy(want, data)
	if maps.Equal(want, there.Data) {
		return nil
	}
	there.Data = want
	if _, err := configs.Update(ctx, there); err != nil {
		return fmt.Errorf("update the ConfigMap %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Reader lets subjects read one object, or all of a resource where it has no name.
type Reader struct {
	Group, Resource, Namespace, Name string
	Role                             string
	Subjects                         []rbacv1.Subject
}

// Joining are machines that come with a token for nodes.
func Joining() []rbacv1.Subject { return []rbacv1.Subject{group(DefaultGroup)} }

// Nodes are those that have joined.
func Nodes() []rbacv1.Subject { return []rbacv1.Subject{group("system:nodes")} }

// JoiningAndNodes are those, and nodes.
func JoiningAndNodes() []rbacv1.Subject {
	return []rbacv1.Subject{group(DefaultGroup), group("system:nodes")}
}

// EnsureReader makes a role and its binding, which stay where they are there.
func EnsureReader(ctx context.Context, client *object.Client, r Reader) error {
	meta := metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Role}
	rule := rbacv1.PolicyRule{APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{"get", "list"}}
	if r.Name != "" {
		rule.ResourceNames, rule.Verbs = []string{r.Name}, []string{"get"}
	}
	if err := made(object.For(client, roles).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}})); err != nil {
		return fmt.Errorf("create the Role %s/%s: %w", r.Namespace, r.Role, err)
	}
	if err := made(object.For(client, roleBindings).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: r.Subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.Role},
	})); err != nil {
		return fmt.Errorf("create the RoleBinding %s/%s: %w", r.Namespace, r.Role, err)
	}
	return nil
}
