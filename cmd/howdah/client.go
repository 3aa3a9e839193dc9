package main

import (
	"runtime"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"howdah.dev/kit/release"
)

// withCodec returns a copy of cfg that can read Statuses.
func withCodec(cfg *rest.Config) *rest.Config {
	c := rest.CopyConfig(cfg)
	c.UserAgent = "howdah/" + release.Version() + " (" + runtime.GOOS + "/" + runtime.GOARCH + ")"
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.GroupVersion = &schema.GroupVersion{Version: "v1"}
	return c
}
