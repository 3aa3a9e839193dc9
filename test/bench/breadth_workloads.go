package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// workloadRequests are what people, Helm, and operators do to workloads.
func workloadRequests(_ context.Context, w *wide) ([]request, error) {
	var (
		apps = w.client.AppsV1().Deployments(w.namespace)
		pods = w.client.CoreV1().Pods(w.namespace)
		maps = w.client.CoreV1().ConfigMaps(w.namespace)
		held [breadthClients]*appsv1.Deployment
	)
	name := func(worker int) string { return fmt.Sprintf("app-%d", worker) }
	applied := func(manager, format string) func(context.Context, int, int) error {
		return func(ctx context.Context, worker, i int) error {
			text := strings.NewReplacer("NAME", name(worker), "NUMBER", fmt.Sprint(i%2)).Replace(format)
			_, err := apps.Patch(ctx, name(worker), types.ApplyPatchType, []byte(text), metav1.PatchOptions{FieldManager: manager, Force: new(true)})
			return err
		}
	}
	patched := func(kind types.PatchType, format string, subresources ...string) func(context.Context, int, int) error {
		return func(ctx context.Context, worker, i int) error {
			_, err := apps.Patch(ctx, name(worker), kind, fmt.Appendf(nil, format, i), metav1.PatchOptions{}, subresources...)
			return err
		}
	}
	return []request{
		{name: "deployment create", most: 60, call: func(ctx context.Context, worker, i int) error {
			deployment := wideDeployment(fmt.Sprintf("made-%d-%d", worker, i))
			_, err := apps.Create(ctx, deployment, metav1.CreateOptions{})
			return err
		}},
		{name: "deployment update", ready: func(ctx context.Context) error {
			return w.each(ctx, breadthClients, func(ctx context.Context, i int) (err error) {
				held[i], err = apps.Create(ctx, wideDeployment(name(i)), metav1.CreateOptions{})
				return err
			})
		}, call: func(ctx context.Context, worker, i int) (err error) {
			held[worker].ResourceVersion = "" // the controller writes, too
			held[worker].Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("registry.example.com/app:%d", i)
			held[worker], err = apps.Update(ctx, held[worker], metav1.UpdateOptions{})
			return err
		}},
		{name: "deployment strategic merge patch", call: patched(types.StrategicMergePatchType,
			`{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"SETTING_03","value":"%d"}]}]}}}}`)},
		{name: "deployment JSON patch", call: patched(types.JSONPatchType, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"registry.example.com/app:%d"}]`)},
		{name: "deployment status patch", call: patched(types.MergePatchType, `{"status":{"observedGeneration":%d}}`, "status")},
		{name: "deployment scale get", call: func(ctx context.Context, worker, _ int) error {
			_, err := apps.GetScale(ctx, name(worker), metav1.GetOptions{})
			return err
		}},
		{name: "deployment scale update", call: func(ctx context.Context, worker, i int) error {
			scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: name(worker), Namespace: w.namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: int32(i % 2)}}
			_, err := apps.UpdateScale(ctx, name(worker), scale, metav1.UpdateOptions{})
			return err
		}},
		{name: "deployment scale patch", call: patched(types.MergePatchType, `{"spec":{"replicas":%d}}`, "scale")},
		{name: "deployment apply of a change", call: applied("helm", appliedWhole)},
		{name: "deployment apply of a second manager", call: applied("operator", appliedPart)},
		{name: "deployment create, dry run", call: func(ctx context.Context, worker, i int) error {
			_, err := apps.Create(ctx, wideDeployment(fmt.Sprintf("dry-%d-%d", worker, i)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}},
		{name: "pod create, dry run", call: func(ctx context.Context, worker, i int) error {
			_, err := pods.Create(ctx, benchPod(fmt.Sprintf("dry-%d-%d", worker, i)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}},
		{name: "pod binding", ready: func(ctx context.Context) error {
			return w.each(ctx, 800, func(ctx context.Context, i int) error {
				_, err := pods.Create(ctx, benchPod(fmt.Sprint("bound-", i)), metav1.CreateOptions{})
				return err
			})
		}, most: 50, call: func(ctx context.Context, worker, i int) error {
			binding := &corev1.Binding{ObjectMeta: ofName("bound-%d", i*breadthClients+worker), Target: corev1.ObjectReference{Kind: "Node", Name: "bench-nowhere"}}
			return pods.Bind(ctx, binding, metav1.CreateOptions{})
		}},
		{name: "pod eviction", most: 50, call: func(ctx context.Context, worker, i int) error {
			return pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: ofName("bound-%d", i*breadthClients+worker), DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}})
		}},
		{name: "16 writers of one object, get and update", ready: func(ctx context.Context) error {
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: ofName("contended")}, metav1.CreateOptions{})
			return err
		}, call: func(ctx context.Context, worker, i int) error {
			object, err := maps.Get(ctx, "contended", metav1.GetOptions{})
			if err != nil {
				return err
			}
			object.Data = map[string]string{"by": fmt.Sprint(worker, i)}
			_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
			return unlessConflict(err)
		}},
		{name: "16 patches of one object at a time", call: func(ctx context.Context, worker, i int) error {
			_, err := maps.Patch(ctx, "contended", types.MergePatchType, fmt.Appendf(nil, `{"data":{"by-%d":"%d"}}`, worker, i), metav1.PatchOptions{})
			return unlessConflict(err)
		}},
	}, nil
}

// unlessConflict forgives that others wrote at the same time: what it costs to say so is measured, too.
func unlessConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// wideDeployment is one of about 3 kB that has no pods, and whose controller makes nothing.
func wideDeployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	pod := benchPod(name)
	pod.Labels = labels
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(0)), Paused: true, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
	}}
}

// appliedWhole is what a manager applies of wideDeployment's, and appliedPart what another does.
var (
	appliedWhole = manifest(func() any {
		d := wideDeployment("NAME")
		d.Spec.Template.Spec.Containers[0].Env[4].Value = "NUMBER"
		return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "NAME", "labels": d.Labels}, "spec": map[string]any{
			"replicas": 0, "paused": true, "selector": d.Spec.Selector, "template": map[string]any{"metadata": map[string]any{"labels": d.Labels}, "spec": d.Spec.Template.Spec}}}
	})
	appliedPart = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"NAME","annotations":{"operator.example.com/seen":"NUMBER"}},` +
		`"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"INJECTED","value":"NUMBER"}]}]}}}}`
)

func manifest(object func() any) string {
	text, _ := json.Marshal(object()) // maps and API types
	return string(text)
}
