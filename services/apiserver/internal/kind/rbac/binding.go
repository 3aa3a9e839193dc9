package rbac

import (
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	namepath "k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func roleBinding(now func() time.Time) *registry.Kind {
	k := named(row.Of[rbacv1.RoleBinding, rbacv1.RoleBindingList](rbacv1.SchemeGroupVersion, "rolebindings"))
	k.Namespaced = true
	k.Default = typed.Do(func(b *rbacv1.RoleBinding) { fill(&b.RoleRef, b.Subjects) })
	k.Validate = typed.Check(func(b *rbacv1.RoleBinding) field.ErrorList {
		return validateBinding(&b.RoleRef, b.Subjects, true, "Role", "ClusterRole")
	})
	k.ValidateUpdate = typed.CheckChange(func(b, old *rbacv1.RoleBinding) field.ErrorList {
		return validateRef(b.RoleRef, old.RoleRef)
	})
	k.Columns = columns("roleBinding", rbacv1beta1.RoleBinding{}.SwaggerDoc()["roleRef"])
	k.Cells = typed.Get(func(b *rbacv1.RoleBinding) []any {
		return cells(b.Name, &b.RoleRef, b.Subjects, column.Since(now(), b.CreationTimestamp.Time))
	})
	return k
}

func clusterRoleBinding(now func() time.Time) *registry.Kind {
	k := named(row.Of[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](rbacv1.SchemeGroupVersion, "clusterrolebindings"))
	k.Default = typed.Do(func(b *rbacv1.ClusterRoleBinding) { fill(&b.RoleRef, b.Subjects) })
	k.Validate = typed.Check(func(b *rbacv1.ClusterRoleBinding) field.ErrorList {
		return validateBinding(&b.RoleRef, b.Subjects, false, "ClusterRole")
	})
	k.ValidateUpdate = typed.CheckChange(func(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
		return validateRef(b.RoleRef, old.RoleRef)
	})
	k.Columns = columns("clusterRoleBinding", rbacv1beta1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"])
	k.Cells = typed.Get(func(b *rbacv1.ClusterRoleBinding) []any {
		return cells(b.Name, &b.RoleRef, b.Subjects, column.Since(now(), b.CreationTimestamp.Time))
	})
	return k
}

func fill(ref *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	if ref.APIGroup == "" {
		ref.APIGroup = rbacv1.GroupName
	}
	for i := range subjects {
		s := &subjects[i]
		if s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
	}
}

func validateBinding(ref *rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool, kinds ...string) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("roleRef")
	if ref.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(path.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	errs = append(errs, check.Supported(ref.Kind, path.Child("kind"), kinds...)...)
	if ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		errs = append(errs, check.Each(namepath.ValidatePathSegmentName(ref.Name, false), ref.Name, path.Child("name"))...)
	}
	for i := range subjects {
		errs = append(errs, validateSubject(&subjects[i], namespaced, field.NewPath("subjects").Index(i))...)
	}
	return errs
}

func validateSubject(s *rbacv1.Subject, namespaced bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	group := func(want string) {
		if s.APIGroup != want {
			errs = append(errs, field.NotSupported(path.Child("apiGroup"), s.APIGroup, []string{want}))
		}
	}
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			errs = append(errs, check.Each(apivalidation.ValidateServiceAccountName(s.Name, false), s.Name, path.Child("name"))...)
		}
		group("")
		// In a RoleBinding it may be left out, and then names nobody.
		if !namespaced && s.Namespace == "" {
			errs = append(errs, field.Required(path.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		group(rbacv1.GroupName)
	default:
		errs = append(errs, field.NotSupported(path.Child("kind"), s.Kind,
			[]string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	return errs
}

func validateRef(ref, old rbacv1.RoleRef) field.ErrorList {
	if ref == old {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), ref, "cannot change roleRef")}
}

func columns(of, ref string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		column.Name(),
		column.String("Role", ref),
		column.Age(),
		column.Wide(column.String("Users", "Users in the "+of)),
		column.Wide(column.String("Groups", "Groups in the "+of)),
		column.Wide(column.String("ServiceAccounts", "ServiceAccounts in the "+of)),
	}
}

func cells(name string, ref *rbacv1.RoleRef, subjects []rbacv1.Subject, age string) []any {
	var users, groups, accounts []string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.GroupKind:
			groups = append(groups, s.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, s.Namespace+"/"+s.Name)
		}
	}
	return []any{
		name, ref.Kind + "/" + ref.Name, age,
		strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", "),
	}
}
