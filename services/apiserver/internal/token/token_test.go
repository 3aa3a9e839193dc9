package token

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/registry"
)

// objects are those that there are, by resource and name.
type objects map[string]registry.Object

func (o objects) Get(_ context.Context, _, resource, _, name string) (registry.Object, error) {
	if obj, ok := o[resource+"/"+name]; ok {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource(resource), name)
}

func meta(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}
}

const issuer = "https://cluster"

func setup(t *testing.T, extend bool) (*Authority, objects, *clocktesting.FakePassiveClock) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	known := objects{
		"serviceaccounts/sa": &corev1.ServiceAccount{ObjectMeta: meta("sa", "1")},
		"pods/p":             &corev1.Pod{ObjectMeta: meta("p", "2"), Spec: corev1.PodSpec{ServiceAccountName: "sa", NodeName: "n"}},
		"secrets/s":          &corev1.Secret{ObjectMeta: meta("s", "3")},
		"nodes/n":            &corev1.Node{ObjectMeta: meta("n", "4")},
	}
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0))
	a, err := New(Config{Issuers: []string{issuer}, Audiences: []string{issuer}, Key: key, Extend: extend, Objects: known, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return a, known, clock
}

func issued(t *testing.T, a *Authority, known objects, spec authenticationv1.TokenRequestSpec) *authenticationv1.TokenRequest {
	t.Helper()
	r := &authenticationv1.TokenRequest{Spec: spec}
	if warnings, err := a.Issue(t.Context(), known["serviceaccounts/sa"], r); err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return r
}

func TestTokensEndWithWhatTheyAreBoundTo(t *testing.T) {
	t.Parallel()
	deleted := func(obj registry.Object, at time.Time) { obj.SetDeletionTimestamp(&metav1.Time{Time: at}) }
	for _, tt := range []struct {
		name, kind, to string
		change         func(o objects, now time.Time)
		want           string // empty is good
	}{
		{"nothing changed", "Pod", "p", func(objects, time.Time) {}, ""},
		{"the pod is gone", "Pod", "p", func(o objects, _ time.Time) { delete(o, "pods/p") }, "service account token has been invalidated"},
		{"the pod's node is gone", "Pod", "p", func(o objects, _ time.Time) { delete(o, "nodes/n") }, ""},
		{"the pod is another", "Pod", "p", func(o objects, _ time.Time) { o["pods/p"].SetUID("9") }, "pod UID (9) does not match service account pod ref claim (2)"},
		{"the pod stops", "Pod", "p", func(o objects, now time.Time) { deleted(o["pods/p"], now.Add(-30*time.Second)) }, ""},
		{"the pod should have stopped", "Pod", "p", func(o objects, now time.Time) { deleted(o["pods/p"], now.Add(-2*time.Minute)) }, "service account token has been invalidated"},
		{"the secret is gone", "Secret", "s", func(o objects, _ time.Time) { delete(o, "secrets/s") }, "service account token has been invalidated"},
		{"the node is gone", "Node", "n", func(o objects, _ time.Time) { delete(o, "nodes/n") }, "service account token has been invalidated"},
		{"the account is gone", "", "", func(o objects, _ time.Time) { delete(o, "serviceaccounts/sa") }, `serviceaccounts "sa" not found`},
		{"the account is another", "", "", func(o objects, _ time.Time) { o["serviceaccounts/sa"].SetUID("9") }, "service account UID (9) does not match claim (1)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, known, clock := setup(t, true)
			spec := authenticationv1.TokenRequestSpec{}
			if tt.kind != "" {
				spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: tt.kind, APIVersion: "v1", Name: tt.to}
			}
			r := issued(t, a, known, spec)
			tt.change(known, clock.Now())
			_, _, err := a.Verify(t.Context(), r.Status.Token, []string{issuer})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// A pod's token names the pod's node, also where there is none of that name.
func TestTokensNameThePodsNode(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(objects)
		want   map[string][]string
	}{
		"a node":               {func(objects) {}, map[string][]string{"node-name": {"n"}, "node-uid": {"4"}}},
		"no node of that name": {func(o objects) { delete(o, "nodes/n") }, map[string][]string{"node-name": {"n"}}},
		"not assigned":         {func(o objects) { o["pods/p"].(*corev1.Pod).Spec.NodeName = "" }, map[string][]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, known, _ := setup(t, true)
			tt.change(known)
			r := issued(t, a, known, authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "p"}})
			user, _, err := a.Verify(t.Context(), r.Status.Token, []string{issuer})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]string{}
			for _, key := range []string{"node-name", "node-uid"} {
				if values, ok := user.Extra["authentication.kubernetes.io/"+key]; ok {
					got[key] = values
				}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestTokensOfPodsLastAYear(t *testing.T) {
	t.Parallel()
	pod := &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "p"}
	for _, tt := range []struct {
		name   string
		extend bool
		spec   authenticationv1.TokenRequestSpec
		want   bool
	}{
		{"as pods get it", true, authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3607)), BoundObjectRef: pod}, true},
		{"of no pod", true, authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3607))}, false},
		{"of another life", true, authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600)), BoundObjectRef: pod}, false},
		{"for others", true, authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3607)), BoundObjectRef: pod, Audiences: []string{issuer, "vault"}}, false},
		{"switched off", false, authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3607)), BoundObjectRef: pod}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, known, clock := setup(t, tt.extend)
			asked := *tt.spec.ExpirationSeconds
			r := issued(t, a, known, tt.spec)
			if got := r.Status.ExpirationTimestamp.Sub(clock.Now()); got != time.Duration(asked)*time.Second {
				t.Errorf("the client is told that it ends in %s", got)
			}
			clock.SetTime(clock.Now().Add(2 * time.Hour))
			_, _, err := a.Verify(t.Context(), r.Status.Token, []string{issuer})
			if got := err == nil; got != tt.want {
				t.Errorf("after two hours: %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "service account token has expired") {
				t.Error(err)
			}
		})
	}
}

func TestTakes(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": true, "*/*": true, "text/html, application/*;q=0.8": false, keysType: true, "application/json": false, "text/*": false, ";": false,
	} {
		if got := takes(accept, keysType); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}
