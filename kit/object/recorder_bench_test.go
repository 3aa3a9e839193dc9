package object_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

// BenchmarkRecorder records one event for each of 5,000 pods, as a scheduler
// does after a burst, and waits until the API has them.
func BenchmarkRecorder(b *testing.B) {
	const pods = 5000
	for b.Loop() {
		api, client := objecttest.Start(b)
		recorder, send := object.Recorder(client, "scheduler", "")
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = send(ctx) }()

		start := time.Now()
		for i := range pods {
			name := fmt.Sprintf("web-%d", i)
			recorder.Event(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}, "Normal", "Scheduled", "Successfully assigned")
		}
		before, since := api.Revision(), time.Now()
		for before < pods && time.Since(since) < time.Second {
			time.Sleep(time.Millisecond)
			if now := api.Revision(); now != before {
				before, since = now, time.Now()
			}
		}
		b.ReportMetric(float64(pods-before), "lost/op")
		b.ReportMetric(float64(since.Sub(start).Milliseconds()), "ms-written")
		cancel()
		<-done
	}
}
