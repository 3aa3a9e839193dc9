package authn

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"google.golang.org/grpc/metadata"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Impersonated is one thing that a user wants to be taken for. The verb of the decision is impersonate.
type Impersonated struct {
	Group, Version, Resource, Subresource string
	Namespace, Name                       string
}

// impersonate returns the user whom the call wants to act as, where the caller may, or else the caller.
func (a *Authenticator) impersonate(ctx context.Context, md metadata.MD, caller *User) (*User, error) {
	wanted, err := wantedUser(md)
	if err != nil {
		return nil, err
	}
	if wanted == nil {
		return caller, nil
	}
	for _, as := range wanted.parts() {
		if a.MayImpersonate == nil {
			return nil, ErrUnauthorized()
		}
		if err := a.MayImpersonate(ctx, caller, as); err != nil {
			return nil, err
		}
	}
	return wanted.user(caller), nil
}

// wanted is what a call wants to be taken for.
type wanted struct {
	name, uid string
	groups    []string
	extra     [][2]string
}

// wantedUser reads what the gateway took from the Impersonate headers; nil says that there are none.
func wantedUser(md metadata.MD) (*wanted, error) {
	var w wanted
	var err error
	unescape := func(text string) string {
		plain, e := url.QueryUnescape(text)
		if e != nil {
			err = e
		}
		return plain
	}
	w.name, w.uid = unescape(first(md, "howdah-as-user")), unescape(first(md, "howdah-as-uid"))
	for _, group := range md.Get("howdah-as-group") {
		w.groups = append(w.groups, unescape(group))
	}
	for _, pair := range md.Get("howdah-as-extra") {
		key, value, ok := unescapePair(pair)
		if !ok {
			err = fmt.Errorf("%q is no escaped pair", pair)
		}
		w.extra = append(w.extra, [2]string{key, value})
	}
	switch {
	case err != nil:
		return nil, apierrors.NewBadRequest("impersonation: " + err.Error())
	case w.name != "":
		return &w, nil
	case w.uid == "" && len(w.groups) == 0 && len(w.extra) == 0:
		return nil, nil
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("requested %v without impersonating a user", w.references()))
}

// references are what Kubernetes' error shows.
func (w *wanted) references() (all []corev1.ObjectReference) {
	for _, group := range w.groups {
		all = append(all, corev1.ObjectReference{Kind: "Group", Name: group})
	}
	for _, e := range w.extra {
		all = append(all, corev1.ObjectReference{
			Kind: "UserExtra", APIVersion: authenticationv1.SchemeGroupVersion.String(), Name: e[1], FieldPath: e[0],
		})
	}
	if w.uid != "" {
		all = append(all, corev1.ObjectReference{Kind: "UID", Name: w.uid, APIVersion: authenticationv1.SchemeGroupVersion.String()})
	}
	return all
}

// parts are what the caller must be allowed to impersonate, one by one.
func (w *wanted) parts() []Impersonated {
	identity := func(resource, subresource, name string) Impersonated {
		gv := authenticationv1.SchemeGroupVersion
		return Impersonated{Group: gv.Group, Version: gv.Version, Resource: resource, Subresource: subresource, Name: name}
	}
	var all []Impersonated
	if namespace, name, ok := SplitServiceAccountName(w.name); ok {
		all = append(all, Impersonated{Resource: "serviceaccounts", Namespace: namespace, Name: name})
	} else {
		all = append(all, Impersonated{Resource: "users", Name: w.name})
	}
	for _, group := range w.groups {
		all = append(all, Impersonated{Resource: "groups", Name: group})
	}
	for _, e := range w.extra {
		all = append(all, identity("userextras", e[0], e[1]))
	}
	if w.uid != "" {
		all = append(all, identity("uids", "", w.uid))
	}
	return all
}

// user is whom the caller becomes. Groups that are named are the authority; a service account without any has its own.
func (w *wanted) user(caller *User) *User {
	u := &User{Name: w.name, UID: w.uid, Groups: slices.Clone(w.groups), Impersonator: caller}
	if namespace, _, ok := SplitServiceAccountName(w.name); ok && len(w.groups) == 0 {
		u.Groups = ServiceAccountGroups(namespace)
	}
	for _, e := range w.extra {
		u.addExtra(e[0], e[1])
	}
	switch {
	case w.name != AnonymousUser:
		return authenticated(u)
	case !u.In(UnauthenticatedGroup):
		u.Groups = append(u.Groups, UnauthenticatedGroup)
	}
	return u
}
