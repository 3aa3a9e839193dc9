package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestContinueOf reads the token of the next page out of lists as they are encoded.
func TestContinueOf(t *testing.T) {
	for _, media := range []string{jsonMedia, protobufMedia} {
		info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
		if !ok {
			t.Fatal("no encoder of ", media)
		}
		encoder := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
		for _, token := range []string{"", "a+b/c=="} {
			// A token in an item is none of the list's.
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"continue": "not this"}}}
			page, err := runtime.Encode(encoder, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: token}, Items: []corev1.Pod{pod}})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := continueOf(page, media == protobufMedia); err != nil || got != token {
				t.Errorf("%s: %q, %v, want %q", media, got, err, token)
			}
		}
		if _, err := continueOf([]byte("k8s\x00\x12\x09\x0a"), true); err == nil {
			t.Error("a broken page is read")
		}
	}
}
