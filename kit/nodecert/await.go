package nodecert

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
)

const (
	firstPause = 500 * time.Millisecond
	lastPause  = 16 * time.Second
	// watchFor bounds one watch of a request, and callFor one call; others follow.
	watchFor = 5 * time.Minute
	callFor  = 30 * time.Second
)

// Requests is a client of CertificateSigningRequests.
type Requests interface {
	Create(ctx context.Context, r *Request) (*Request, error)
	Get(ctx context.Context, name string) (*Request, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Ask makes a request, or finds the one of its name that an earlier try has made for the same key and subject.
func Ask(ctx context.Context, requests Requests, asked *Request) (*Request, error) {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	created, err := requests.Create(ctx, asked)
	if err == nil {
		return created, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("ask for a certificate: %w", err)
	}
	there, err := requests.Get(ctx, asked.Name)
	if err != nil {
		return nil, fmt.Errorf("read the request %s, which is there already: %w", asked.Name, err)
	}
	if same, err := sameAsked(there.Spec.Request, asked.Spec.Request); err != nil || !same || there.Spec.SignerName != asked.Spec.SignerName {
		return nil, Refusal{fmt.Errorf("request %s is there already and asks for something else", asked.Name)}
	}
	return there, nil
}

// sameAsked compares key and subject: a signature of the same is another one each time.
func sameAsked(a, b []byte) (bool, error) {
	var of [2]*x509.CertificateRequest
	for i, data := range [][]byte{a, b} {
		block, _ := pem.Decode(data)
		if block == nil {
			return false, nil
		}
		parsed, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			return false, err
		}
		of[i] = parsed
	}
	return bytes.Equal(of[0].RawSubjectPublicKeyInfo, of[1].RawSubjectPublicKeyInfo) && bytes.Equal(of[0].RawSubject, of[1].RawSubject), nil
}

// Await waits until a request is answered, and returns the certificate in PEM. It ends with ctx, with a Refusal, or when the request is gone.
func Await(ctx context.Context, requests Requests, r *Request, c clock.Clock) ([]byte, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		certificate, err := follow(ctx, requests, r)
		if len(certificate) > 0 || err != nil {
			return certificate, err
		}
		timer := c.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("request %s is not answered: %w", r.Name, ctx.Err())
		}
		now, err := get(ctx, requests, r.Name)
		switch {
		case apierrors.IsNotFound(err):
			return nil, gone(r.Name)
		case err == nil:
			r = now
		}
	}
}

func get(ctx context.Context, requests Requests, name string) (*Request, error) {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	return requests.Get(ctx, name)
}

func gone(name string) error { return fmt.Errorf("request %s is gone and was not answered", name) }

// follow reads the answer to a request, or waits for it as long as one watch lasts.
func follow(ctx context.Context, requests Requests, r *Request) ([]byte, error) {
	if certificate, err := Answer(r); len(certificate) > 0 || err != nil {
		return certificate, err
	}
	ctx, cancel := context.WithTimeout(ctx, watchFor+callFor) // for a server that does not end it
	defer cancel()
	w, err := requests.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + r.Name, ResourceVersion: r.ResourceVersion, TimeoutSeconds: new(int64(watchFor.Seconds())),
	})
	if err != nil {
		return nil, nil // it is looked at again
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, nil // the caller looks why
		case e, ok := <-w.ResultChan():
			now, isRequest := e.Object.(*Request)
			switch {
			case !ok || !isRequest:
				return nil, nil
			case e.Type == watch.Deleted:
				return nil, gone(r.Name)
			}
			if certificate, err := Answer(now); len(certificate) > 0 || err != nil {
				return certificate, err
			}
		}
	}
}
