package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/podcontrol"
)

// indexVariable is the environment variable that tells a container the completion index of its pod.
const indexVariable = "JOB_COMPLETION_INDEX"

// podsOf returns a function that makes the job's pods. They share the template's parts.
func podsOf(job *batchv1.Job) func(n NewPod, name string) *corev1.Pod {
	t := &job.Spec.Template
	finalizers := t.Finalizers
	if !slices.Contains(finalizers, batchv1.JobTrackingFinalizer) {
		finalizers = append(slices.Clone(finalizers), batchv1.JobTrackingFinalizer)
	}
	spec := t.Spec
	if indexed(job) {
		spec.InitContainers, spec.Containers = told(spec.InitContainers), told(spec.Containers)
	}
	return func(n NewPod, name string) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: job.Namespace, Name: name, GenerateName: prefix(job, n.Index),
				Labels: t.Labels, Annotations: t.Annotations, Finalizers: finalizers,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, kind)},
			},
			Spec: spec,
		}
		if n.Index == none {
			return p
		}
		index := strconv.Itoa(n.Index)
		p.Labels = with(p.Labels, batchv1.JobCompletionIndexAnnotation, index)
		p.Annotations = with(p.Annotations, batchv1.JobCompletionIndexAnnotation, index)
		p.Spec.Hostname = job.Name + "-" + index
		if job.Spec.BackoffLimitPerIndex != nil {
			p.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(int(n.Failures))
			if n.Ignored > 0 {
				p.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(int(n.Ignored))
			}
		}
		return p
	}
}

// prefix is the generateName of a pod, cut where its host name would become too long.
func prefix(job *batchv1.Job, index int) string {
	if index == none {
		return podcontrol.GenerateName(job.Name)
	}
	end := fmt.Sprintf("-%d-", index)
	return job.Name[:min(len(job.Name), object.LongestPrefix-len(end))] + end
}

// told returns the containers with the variable of the index, unless they have one of that name.
func told(containers []corev1.Container) []corev1.Container {
	containers = slices.Clone(containers)
	for i := range containers {
		c := &containers[i]
		if slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == indexVariable }) {
			continue
		}
		c.Env = append(slices.Clone(c.Env), corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation)},
		}})
	}
	return containers
}

// with returns a copy of a map with one more entry.
func with(m map[string]string, key, value string) map[string]string {
	if m = maps.Clone(m); m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}
