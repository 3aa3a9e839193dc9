package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"howdah.dev/kit/pki"
)

// TestClientAuthoritiesAreFollowed replaces the authority of users while the cluster runs: those of the new one are let in, those of the one before are not any
// more, and extension API servers are told of the new one.
func TestClientAuthoritiesAreFollowed(t *testing.T) {
	t.Parallel()
	type users struct {
		pem    string
		config rest.TLSClientConfig
	}
	authority := func() users {
		a, err := pki.NewAuthority(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		jane, err := a.Issue(pki.Subject{CommonName: "jane", Client: true}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return users{string(a.PEM()), rest.TLSClientConfig{CertData: jane.Certificate, KeyData: jane.Key}}
	}
	first, second := authority(), authority()
	file := filepath.Join(t.TempDir(), "clients.crt")
	replace(t, file, first.pem)
	admin, address, dir := runStandalone(t, "--client-ca-file", file)
	who := func(u users) (string, error) {
		u.config.CAFile = filepath.Join(dir, "gateway", "ca.crt")
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://" + address, TLSClientConfig: u.config})
		review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return review.Status.UserInfo.Username, nil
	}
	published := func(u users) bool {
		c, err := admin.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		return err == nil && strings.Contains(c.Data["client-ca-file"], strings.TrimSpace(u.pem))
	}
	await := func(what string, is func() error) {
		t.Helper()
		var last error
		if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
			last = is()
			return last == nil, nil
		}); err != nil {
			t.Fatalf("%s: %v", what, last)
		}
	}
	in := func(u users) func() error {
		return func() error {
			if name, err := who(u); name != "jane" {
				return fmt.Errorf("%q: %w", name, err)
			}
			return nil
		}
	}
	out := func(u users) func() error {
		return func() error {
			if name, err := who(u); !apierrors.IsUnauthorized(err) {
				return fmt.Errorf("%q: %w", name, err)
			}
			return nil
		}
	}
	await("a user of the authority", in(first))
	if err := out(second)(); err != nil {
		t.Errorf("a user of another authority: %v", err)
	}
	if !published(first) || published(second) {
		t.Error("what is published is another authority")
	}
	replace(t, file, "no certificate")
	replace(t, file, second.pem)
	await("a user of the new authority", in(second))
	await("a user of the authority before", out(first))
	await("the new authority is published", func() error {
		if !published(second) {
			return fmt.Errorf("it is not")
		}
		return nil
	})
}
