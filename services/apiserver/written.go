package apiserver

import (
	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/issued"
	"howdah.dev/services/apiserver/internal/registry"
)

// written are those who hear of committed updates.
func written(registerer prometheus.Registerer) map[schema.GroupResource]func(obj, old registry.Object) {
	return map[schema.GroupResource]func(obj, old registry.Object){
		{Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"}: issued.NewDurations(registerer).Written,
	}
}
