package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhookRequests are creations of pods that the API server asks webhooks of this process about, over TLS on loopback: what answering takes is the
// client's.
func webhookRequests(_ context.Context, w *wide) ([]request, error) {
	pods := w.client.CoreV1().Pods(w.namespace)
	var hooks *httptest.Server
	made := func(prefix string) func(context.Context, int, int) error {
		return func(ctx context.Context, worker, i int) error {
			pod, err := pods.Create(ctx, benchPod(fmt.Sprintf("%s-%d-%d", prefix, worker, i)), metav1.CreateOptions{})
			if err == nil && prefix == "mutated" && pod.Annotations["bench.howdah.dev/seen"] != "yes" {
				err = fmt.Errorf("pod %s was not changed by the webhook", pod.Name)
			}
			return err
		}
	}
	return []request{
		{name: "pod create without webhooks", call: made("plain")},
		{name: "pod create past a validating webhook", ready: func(ctx context.Context) error {
			hooks = httptest.NewTLSServer(http.HandlerFunc(reviewPod))
			return w.validatingWebhook(ctx, hooks)
		}, call: made("validated")},
		{name: "pod create past a mutating and a validating webhook", ready: func(ctx context.Context) error { return w.mutatingWebhook(ctx, hooks) }, call: made("mutated")},
		{name: "pod create that a webhook refuses", call: func(ctx context.Context, worker, i int) error {
			pod := benchPod(fmt.Sprintf("refused-%d-%d", worker, i))
			pod.Labels["refuse"] = "yes"
			if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err == nil {
				return fmt.Errorf("pod %s was not refused", pod.Name)
			}
			return nil
		}, done: func(ctx context.Context) error {
			admission, ours := w.client.AdmissionregistrationV1(), metav1.ListOptions{LabelSelector: ofBench}
			if err := admission.ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, ours); err != nil {
				return err
			}
			if err := admission.MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, ours); err != nil {
				return err
			}
			if hooks != nil {
				hooks.Close()
			}
			return w.forgetPods(ctx)
		}},
	}, nil
}

// reviewPod answers as most webhooks do: at /change with an annotation, elsewhere with a verdict that follows from a label.
func reviewPod(out http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	var pod corev1.Pod
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil || json.Unmarshal(review.Request.Object.Raw, &pod) != nil {
		http.Error(out, "no review of a pod", http.StatusBadRequest)
		return
	}
	answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: pod.Labels["refuse"] == "" || r.URL.Path == "/change"}
	if !answer.Allowed {
		answer.Result = &metav1.Status{Message: "this pod is not wanted", Code: http.StatusForbidden}
	}
	if r.URL.Path == "/change" {
		answer.PatchType = new(admissionv1.PatchTypeJSONPatch)
		answer.Patch = []byte(`[{"op":"add","path":"/metadata/annotations","value":{"bench.howdah.dev/seen":"yes"}}]`)
	}
	review.Request, review.Response = nil, answer
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(review) // to a client that has gone
}

// ofHooks says where a webhook is, and whose certificate it has.
func ofHooks(hooks *httptest.Server, path string) registrationv1.WebhookClientConfig {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hooks.Certificate().Raw})
	return registrationv1.WebhookClientConfig{URL: new(hooks.URL + path), CABundle: authority}
}

func podsCreated() []registrationv1.RuleWithOperations {
	return []registrationv1.RuleWithOperations{{Operations: []registrationv1.OperationType{registrationv1.Create},
		Rule: registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}}
}

// within selects the namespace that is measured.
func (w *wide) within() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.namespace}}
}

// validatingWebhook has pods validated, and waits until they are.
func (w *wide) validatingWebhook(ctx context.Context, hooks *httptest.Server) error {
	_, err := w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "bench-validates", Labels: map[string]string{ofBench: ""}},
		Webhooks: []registrationv1.ValidatingWebhook{{Name: "validates.bench.howdah.dev", ClientConfig: ofHooks(hooks, "/validate"), Rules: podsCreated(), NamespaceSelector: w.within(),
			SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		pod := benchPod("tried")
		pod.Labels["refuse"] = "yes"
		_, err := w.client.CoreV1().Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil, nil
	})
}

// mutatingWebhook has pods changed, and waits until they are.
func (w *wide) mutatingWebhook(ctx context.Context, hooks *httptest.Server) error {
	_, err := w.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "bench-changes", Labels: map[string]string{ofBench: ""}},
		Webhooks: []registrationv1.MutatingWebhook{{Name: "changes.bench.howdah.dev", ClientConfig: ofHooks(hooks, "/change"), Rules: podsCreated(), NamespaceSelector: w.within(),
			SideEffects: new(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		pod, err := w.client.CoreV1().Pods(w.namespace).Create(ctx, benchPod("tried"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && pod.Annotations["bench.howdah.dev/seen"] != "", err
	})
}
