package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// floor measures the same client against a server that answers every create with the same bytes and does nothing
// else, in this process: what no API server in Go can be faster than, with its client on the same processors.
func floor(ctx context.Context, b *bench) error {
	if b.target != nil && b.target.kubernetes() {
		return nil // it is the same whatever it is compared with
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		return fmt.Errorf("client-go knows no protobuf")
	}
	body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, scheme.Scheme.PrioritizedVersionsForGroup("")[0]), benchPod("p"))
	if err != nil {
		return err
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		_, _ = w.Write(body)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	config := rest.Config{Host: server.URL, QPS: -1}
	config.Insecure = true
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(&config)
	if err != nil {
		return err
	}
	for _, clients := range b.clients {
		f, err := b.measure(clients, func(int) int { return 1 << 30 }, func(worker, i int) error {
			_, err := client.CoreV1().Pods("x").Create(ctx, benchPod("p"), metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		f.Scenario, f.Server, f.Database = "floor: create against a server that does nothing", 0, 0
		f.Note = "client and server are one process: client_us_per_op is both"
		b.report(f)
	}
	return nil
}
