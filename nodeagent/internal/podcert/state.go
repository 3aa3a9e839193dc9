package podcert

import (
	"errors"
	"fmt"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// overdueAfter is how long after a certificate was to be replaced it is told that it was not.
const overdueAfter = 10 * time.Minute

// errNotIssued is what a pod waits for.
var errNotIssued = errors.New("credential bundle is not issued yet")

// Bundle is a key and the certificates for it, both in PEM; the pod's own certificate is the first.
type Bundle struct{ Key, Chain []byte }

// held is a bundle that was issued.
type held struct {
	Bundle
	refreshAt, notAfter time.Time
	// overdue and expired say that this was told.
	overdue, expired bool
}

// asked is a request that is not settled.
type asked struct {
	name string
	uid  types.UID
	key  []byte
}

// state is where one source of a pod's volume is. With all empty nothing was asked for yet.
type state struct {
	held    *held
	asked   *asked
	refusal error // for good
}

// told is an event of a pod, a warning.
type told struct{ reason, message string }

// due reports whether a certificate is to be asked for.
func (s *state) due(now time.Time) bool {
	return s.refusal == nil && s.asked == nil && (s.held == nil || !now.Before(s.held.refreshAt))
}

// settle takes what became of the request, if something did, and returns what is to be told of it. jitter is by how much later than its signer says the
// certificate is replaced.
func (s *state) settle(r *certificatesv1beta1.PodCertificateRequest, jitter time.Duration) *told {
	name := r.Namespace + "/" + r.Name
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1beta1.PodCertificateRequestConditionTypeIssued:
			h := &held{Bundle: Bundle{s.asked.key, clean(r.Status.CertificateChain)}}
			if at := r.Status.BeginRefreshAt; at != nil {
				h.refreshAt = at.Add(jitter)
			}
			if at := r.Status.NotAfter; at != nil {
				h.notAfter = at.Time
			}
			s.held, s.asked = h, nil
			return nil
		case certificatesv1beta1.PodCertificateRequestConditionTypeDenied:
			return s.refuse(c.Type, fmt.Sprintf("PodCertificateRequest %s was denied, reason=%q, message=%q", name, c.Reason, c.Message), "denied", c.Reason, c.Message)
		case certificatesv1beta1.PodCertificateRequestConditionTypeFailed:
			return s.refuse(c.Type, fmt.Sprintf("PodCertificateRequest %s failed, reason=%q, message=%q", name, c.Reason, c.Message), "failed", c.Reason, c.Message)
		}
	}
	return nil
}

func (s *state) refuse(event, text, how, reason, message string) *told {
	*s = state{refusal: &refused{how, reason, message}}
	return &told{event, text}
}

// late are the events of a certificate that should have been replaced, each told once.
func (s *state) late(now time.Time) []told {
	h := s.held
	if h == nil {
		return nil
	}
	var events []told
	if now.After(h.refreshAt.Add(overdueAfter)) && !h.overdue {
		h.overdue = true
		events = append(events, told{"CertificateOverdueForRefresh", "PodCertificate refresh overdue"})
	}
	if now.After(h.notAfter) && !h.expired {
		h.expired = true
		events = append(events, told{"CertificateExpired", "PodCertificate expired"})
	}
	return events
}

// bundle is what the pod may have now. A certificate that has ended is given to the pod, too: it is the one that it has.
func (s *state) bundle() (Bundle, error) {
	switch {
	case s.refusal != nil:
		return Bundle{}, s.refusal
	case s.held == nil:
		return Bundle{}, errNotIssued
	}
	return s.held.Bundle, nil
}

// label is what the metric calls the state.
func (s *state) label(now time.Time) string {
	var r *refused
	switch {
	case errors.As(s.refusal, &r):
		return r.how
	case s.held == nil:
		return "not_yet_issued"
	case now.After(s.held.notAfter):
		return "expired"
	case now.After(s.held.refreshAt.Add(overdueAfter)):
		return "overdue_for_refresh"
	}
	return "fresh"
}

// refused is an answer that stays.
type refused struct{ how, reason, message string }

func (r *refused) Error() string {
	return fmt.Sprintf("PodCertificateRequest was permanently %s: reason=%q message=%q", r.how, r.reason, r.message)
}

// request is what is asked for a source of a pod's volume.
func request(node *corev1.Node, pod *corev1.Pod, account types.UID, source *corev1.PodCertificateProjection, proof []byte) *certificatesv1beta1.PodCertificateRequest {
	r := &certificatesv1beta1.PodCertificateRequest{Spec: certificatesv1beta1.PodCertificateRequestSpec{
		SignerName: source.SignerName, MaxExpirationSeconds: source.MaxExpirationSeconds,
		PodName: pod.Name, PodUID: pod.UID, ServiceAccountName: pod.Spec.ServiceAccountName, ServiceAccountUID: account,
		NodeName: types.NodeName(node.Name), NodeUID: node.UID, StubPKCS10Request: proof, UnverifiedUserAnnotations: source.UserAnnotations,
	}}
	r.Namespace, r.GenerateName = pod.Namespace, "req-"
	r.OwnerReferences = append(r.OwnerReferences, ownedBy(pod))
	return r
}
