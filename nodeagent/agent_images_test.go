package nodeagent_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/image"
	"howdah.dev/nodeagent/internal/verify"
)

// Images of archives are pinned, and stay. One that is not, and that nobody needs, goes when the node is short of disk.
func (n *node) testImages(t *testing.T) {
	n = n.in(t)
	conn, err := grpc.NewClient(n.c.endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	images := runtimeapi.NewImageServiceClient(conn)
	// await waits until the runtime has these images, pinned or not.
	await := func(want map[string]bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			list, err := images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for _, i := range list.GetImages() {
				for _, tag := range i.GetRepoTags() {
					got[tag] = i.GetPinned()
				}
			}
			if maps.Equal(got, want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("images (pinned or not): %v, want %v", got, want)
			}
		}
	}
	await(map[string]bool{"howdah.test/busybox:1": true, "howdah.test/pause:1": true, "howdah.test/spare:1": true})

	ctx := metadata.AppendToOutgoingContext(t.Context(), "containerd-namespace", "k8s.io")
	for _, name := range []string{"howdah.test/busybox:1", "howdah.test/spare:1"} {
		store := imagesapi.NewImagesClient(conn)
		got, err := store.Get(ctx, &imagesapi.GetImageRequest{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		bare := got.GetImage()
		bare.Labels = map[string]string{}
		if _, err := store.Update(ctx, &imagesapi.UpdateImageRequest{Image: bare, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}}}); err != nil {
			t.Fatal(err)
		}
	}
	await(map[string]bool{"howdah.test/busybox:1": false, "howdah.test/pause:1": true, "howdah.test/spare:1": false})

	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "keeps"}, Spec: corev1.PodSpec{Containers: []corev1.Container{shell("exec sleep 1000")}}})
	n.await("keeps", "ready", time.Minute, ready)
	collector, err := image.NewCollector(image.CollectorConfig{
		Images: images, Containers: runtimeapi.NewRuntimeServiceClient(conn), Keep: image.Defaults, Clock: clock.RealClock{},
		Records: verify.New(verify.Config{Dir: t.TempDir(), Clock: clock.RealClock{}}),
		Wanted:  func() []string { return nil }, Short: func() bool { return true }, Failed: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- collector.Run(ctx) }()
	await(map[string]bool{"howdah.test/busybox:1": false, "howdah.test/pause:1": true})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("collector: %v", err)
	}
	if stdout, _, _ := n.run("keeps", "echo here", ""); stdout != "here\n" {
		t.Errorf("the pod whose image stays: %q", stdout)
	}
	n.remove("keeps")
}
