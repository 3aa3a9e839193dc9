package gateway

import (
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/uuid"

	"howdah.dev/gateway/internal/document"
)

// auditIDHeader names a request in the audit log; a client may choose it.
const auditIDHeader = "Audit-Id"

const (
	maxAuditID = 64
	// maxOrigin bounds what a client's own headers and URI make of it, in bytes: more would not pass.
	maxOrigin = 8 << 10
)

// withOrigin answers the audit ID of a request in a header, and adds to md where the request came from.
func withOrigin(md metadata.MD, w http.ResponseWriter, r *http.Request) metadata.MD {
	id := r.Header.Get(auditIDHeader)
	if id == "" || len(id) > maxAuditID || strings.IndexFunc(id, unprintable) >= 0 {
		id = string(uuid.NewUUID())
	}
	w.Header().Set(auditIDHeader, id)
	var sources []string
	for _, ip := range utilnet.SourceIPs(r) {
		sources = append(sources, ip.String())
	}
	line := func(text string, most int) string {
		return strings.ReplaceAll(text[:min(len(text), most)], "\n", " ")
	}
	md.Set(document.OriginKey, id+"\n"+line(strings.Join(sources, ","), maxOrigin)+"\n"+line(r.UserAgent(), maxAgent)+"\n"+line(r.URL.RequestURI(), maxOrigin))
	return md
}
