package answer

import (
	"net/http"

	"google.golang.org/grpc/metadata"
)

// classification are the headers by which priority and fairness says how it has classified a request.
var classification = [...]string{"X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"}

// Classified passes on what the API server says of a request's classification.
func Classified(h http.Header, md metadata.MD) {
	for _, name := range classification {
		if values := md.Get(name); len(values) > 0 && values[0] != "" {
			h[name] = values[:1]
		}
	}
}
