package fakeapi

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"howdah.dev/kit/object"
)

var jsonCodec = serializer.NewCodecFactory(object.Scheme).LegacyCodec(corev1.SchemeGroupVersion)
