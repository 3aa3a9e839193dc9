// Package older has the OpenAPI models of versions that Kubernetes has removed, or is about to, and of APIService, whose type is
// not among those of k8s.io/api.
package older

//go:generate go tool openapi-gen --go-header-file ../header.go.txt --output-dir . --output-pkg howdah.dev/services/apiserver/internal/openapi/older --output-file zz_generated.openapi.go --report-filename /dev/null k8s.io/kube-aggregator/pkg/apis/apiregistration/v1 k8s.io/api/batch/v1beta1 k8s.io/api/certificates/v1beta1 k8s.io/api/coordination/v1beta1 k8s.io/api/discovery/v1beta1 k8s.io/api/events/v1beta1 k8s.io/api/networking/v1beta1 k8s.io/api/node/v1beta1 k8s.io/api/policy/v1beta1 k8s.io/api/resource/v1beta1 k8s.io/api/resource/v1beta2 k8s.io/api/rbac/v1beta1 k8s.io/api/scheduling/v1beta1 k8s.io/api/storage/v1beta1
