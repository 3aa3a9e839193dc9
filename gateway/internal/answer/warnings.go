package answer

import (
	"net/http"

	"google.golang.org/grpc/metadata"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Warnings turns the "warning" metadata of an API server's answer, "warning-bin" where it is not ASCII, into Warning headers.
func Warnings(h http.Header, md metadata.MD) {
	for _, text := range append(md.Get("warning"), md.Get("warning-bin")...) {
		if line, err := utilnet.NewWarningHeader(299, "-", text); err == nil {
			h.Add("Warning", line)
		}
	}
}
