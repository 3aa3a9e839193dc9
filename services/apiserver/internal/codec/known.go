package codec

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

// knownBeside are the kinds that the server of a kind knows when it is sent another: in Kubernetes, definitions of custom kinds and of API
// services are served by servers of their own, which know no other kinds than these.
func knownBeside(want schema.GroupVersionKind) *runtime.Scheme {
	switch want.Group {
	case apiextensionsv1.GroupName:
		return definitions()
	case "apiregistration.k8s.io":
		return services()
	}
	return scheme.Scheme
}

var (
	definitions = sync.OnceValue(func() *runtime.Scheme { return alone(apiextensionsv1.AddToScheme, apiextensionsv1beta1.AddToScheme) })
	services    = sync.OnceValue(func() *runtime.Scheme {
		return alone(apiregistrationv1.AddToScheme, apiregistrationv1beta1.AddToScheme)
	})
)

// alone is a scheme of the kinds that are added, and of those that every server has.
func alone(add ...func(*runtime.Scheme) error) *runtime.Scheme {
	s := runtime.NewScheme()
	for _, a := range add {
		utilruntime.Must(a(s))
	}
	v1 := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(s, v1)
	s.AddUnversionedTypes(v1, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return s
}
