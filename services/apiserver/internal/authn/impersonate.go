package authn

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// impersonate returns the user whom the call wants to act as, where the caller may, or else the caller. Of several refusals
// the first is told.
func (a *Authenticator) impersonate(ctx context.Context, md metadata.MD, caller *User) (*User, error) {
	wanted, err := wantedUser(md)
	if err != nil {
		return nil, err
	}
	if wanted == nil {
		return caller, nil
	}
	if a.MayImpersonate == nil {
		return nil, ErrUnauthorized()
	}
	var refused error
	start := time.Now()
	for _, m := range a.Modes.order(caller, wanted.modes(ctx, caller)) {
		err := a.may(ctx, caller, m)
		if err == nil {
			a.Modes.remember(caller, m)
			a.Metrics.acted(m.name, nil, time.Since(start))
			return wanted.user(caller, m), nil
		}
		if refused == nil {
			refused = err
		}
	}
	a.Metrics.acted("", refused, time.Since(start))
	return nil, refused
}

func (a *Authenticator) may(ctx context.Context, caller *User, m mode) error {
	for i := 0; i < len(m.parts); i++ {
		p := m.parts[i]
		start := time.Now()
		err := a.MayImpersonate(ctx, caller, p.Access, p.refusal)
		a.Metrics.asked(m.name, err, time.Since(start))
		switch {
		case err == nil:
			i += p.covers
		case p.covers == 0:
			return err
		}
	}
	return nil
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
	return nil, apierrors.NewBadRequest(fmt.Sprintf("requested %s without impersonating a user name", w.shown()))
}

// parts are what the caller must be allowed to impersonate, one by one.
func (w *wanted) parts() []part {
	const verb = "impersonate"
	var all []part
	add := func(one Access) {
		one.Verb = verb
		all = append(all, part{Access: one})
	}
	if namespace, name, ok := SplitServiceAccountName(w.name); ok {
		add(Access{Version: "v1", Resource: "serviceaccounts", Namespace: namespace, Name: name})
	} else {
		add(Access{Version: "v1", Resource: "users", Name: w.name})
	}
	if w.uid != "" {
		add(identity("uids", "", "", w.uid))
	}
	for _, group := range w.groups {
		add(Access{Version: "v1", Resource: "groups", Name: group})
	}
	for _, e := range w.extra {
		add(identity("userextras", e[0], "", e[1]))
	}
	return all
}

// user is whom the caller becomes. Groups that are named are the authority.
func (w *wanted) user(caller *User, m mode) *User {
	u := &User{Name: w.name, UID: w.uid, Groups: slices.Clone(w.groups), Impersonator: caller, Constraint: m.verb()}
	if len(w.groups) == 0 {
		u.Groups = slices.Clone(m.groups)
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
