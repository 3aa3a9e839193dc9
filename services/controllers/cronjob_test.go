package controllers

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

// TestCronJobOnTheRealAPI: jobs pass the API's validation, the status keeps the last start and both jobs, and the garbage collector takes
// them along with the CronJob.
func TestCronJobOnTheRealAPI(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "cronjob,garbagecollector")
	create(t, client, object.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	cj := create(t, client, object.CronJob, &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "often"},
		Spec: batchv1.CronJobSpec{
			Schedule: "@every 2s",
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"}},
				Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyOnFailure, Containers: []corev1.Container{{Name: "c", Image: "busybox"}},
				}}},
			},
		},
	})
	await(t, client, object.Job, "a job", func(jobs []*batchv1.Job) bool {
		return len(jobs) >= 1 && strings.HasPrefix(jobs[0].Name, "often-") && jobs[0].Labels["l"] == "1" && metav1.IsControlledBy(jobs[0], cj)
	})
	await(t, client, object.CronJob, "the job in the status", func(all []*batchv1.CronJob) bool {
		s := all[0].Status
		return len(s.Active) >= 1 && s.Active[0].Kind == "Job" && s.Active[0].APIVersion == "batch/v1" && s.LastScheduleTime != nil
	})
	await(t, client, object.Event, "the event of its creation", func(events []*corev1.Event) bool {
		return len(events) > 0 && events[0].Reason == "SuccessfulCreate" && events[0].Source.Component == "cronjob-controller"
	})
	if err := object.For(client, object.CronJob).Delete(t.Context(), "team", "often", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, object.Job, "the end of the jobs", func(jobs []*batchv1.Job) bool { return len(jobs) == 0 })
}
