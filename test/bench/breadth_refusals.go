package main

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// policies are how many validating admission policies are in force.
const policies = 10

// refusedRequests are what admission has more to do with than usual: creates that pod security, policies, or a quota refuse, and those that
// pass ten policies.
func refusedRequests(_ context.Context, w *wide) ([]request, error) {
	pods := w.client.CoreV1().Pods(w.namespace)
	refused := func(change func(*corev1.Pod)) func(context.Context, int, int) error {
		return func(ctx context.Context, worker, i int) error {
			pod := benchPod(fmt.Sprintf("refused-%d-%d", worker, i))
			change(pod)
			if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err == nil {
				return fmt.Errorf("pod %s was not refused", pod.Name)
			}
			return nil
		}
	}
	labelled := func(label string) error {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%s}}}`, label)
		_, err := w.client.CoreV1().Namespaces().Patch(context.Background(), w.namespace, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	return []request{
		{name: "pod create, invalid", call: refused(func(pod *corev1.Pod) { pod.Spec.Containers[0].Env[3].Name = "" })},
		{name: "pod create that exists", ready: func(ctx context.Context) error {
			_, err := pods.Create(ctx, benchPod("exists"), metav1.CreateOptions{})
			return err
		}, call: refused(func(pod *corev1.Pod) { pod.Name = "exists" })},
		{name: "pod create that pod security refuses", ready: func(context.Context) error { return labelled(`"restricted"`) },
			call: refused(func(*corev1.Pod) {}), done: func(context.Context) error { return labelled(`null`) }},
		{name: "pod create past 10 policies", ready: w.policies, call: func(ctx context.Context, worker, i int) error {
			_, err := pods.Create(ctx, benchPod(fmt.Sprintf("passed-%d-%d", worker, i)), metav1.CreateOptions{})
			return err
		}},
		{name: "pod create that a policy refuses", call: refused(func(pod *corev1.Pod) { pod.Labels["refuse"] = "7" }), done: func(ctx context.Context) error {
			admission := w.client.AdmissionregistrationV1()
			err := admission.ValidatingAdmissionPolicyBindings().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ofBench})
			if err != nil {
				return err
			}
			return admission.ValidatingAdmissionPolicies().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ofBench})
		}},
		{name: "pod create under a quota", ready: func(ctx context.Context) error { return w.quota(ctx, "roomy", "100k") },
			call: func(ctx context.Context, worker, i int) error {
				_, err := pods.Create(ctx, benchPod(fmt.Sprintf("counted-%d-%d", worker, i)), metav1.CreateOptions{})
				return err
			}},
		{name: "pod create that a quota refuses", ready: func(ctx context.Context) error { return w.quota(ctx, "full", "1") }, call: refused(func(*corev1.Pod) {})},
	}, nil
}

// quota makes a quota of pods, and waits until it is in force.
func (w *wide) quota(ctx context.Context, name, pods string) error {
	quotas := w.client.CoreV1().ResourceQuotas(w.namespace)
	hard := corev1.ResourceList{"pods": resource.MustParse(pods), "requests.cpu": resource.MustParse("100k")}
	if _, err := quotas.Create(ctx, &corev1.ResourceQuota{ObjectMeta: ofName("%s", name), Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		quota, err := quotas.Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(quota.Status.Used) == len(hard), err
	})
}

// policies makes policies of the namespace's pods, each of which refuses a value of a label, and waits until all do.
func (w *wide) policies(ctx context.Context) error {
	labels := map[string]string{ofBench: ""}
	for i := range policies {
		name := fmt.Sprint("bench-", i)
		policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{"CREATE", "UPDATE"}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}}},
			Validations: []admissionv1.Validation{
				{Expression: fmt.Sprintf(`object.metadata.?labels[?"refuse"].orValue("") != "%d"`, i)},
				{Expression: `object.spec.containers.all(c, !c.image.endsWith(":latest") && c.?resources.requests.hasValue())`, Message: "images have versions, containers requests"},
			},
		}}
		if _, err := w.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil {
			return err
		}
		_, err := w.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
				MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.namespace}}},
			}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	for i := range policies {
		pod := benchPod(fmt.Sprint("tried-", i))
		pod.Labels["refuse"] = fmt.Sprint(i)
		err := until(ctx, func() (bool, error) {
			_, err := w.client.CoreV1().Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
