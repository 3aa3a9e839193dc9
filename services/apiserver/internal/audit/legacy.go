package audit

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// legacy is the event as a line of text, in the format that Kubernetes had before there were events.
func legacy(e *auditv1.Event) string {
	as, asGroups := "<self>", "<lookup>"
	if u := e.ImpersonatedUser; u != nil {
		as = u.Username
		if len(u.Groups) > 0 {
			asGroups = quoted(u.Groups)
		}
	}
	namespace, address, response := "<none>", "<unknown>", "<deferred>"
	if e.ObjectRef != nil && e.ObjectRef.Namespace != "" {
		namespace = e.ObjectRef.Namespace
	}
	if len(e.SourceIPs) > 0 {
		address = e.SourceIPs[0]
	}
	if e.ResponseStatus != nil {
		response = strconv.Itoa(int(e.ResponseStatus.Code))
	}
	groups := "<none>"
	if len(e.User.Groups) > 0 {
		groups = quoted(e.User.Groups)
	}
	return fmt.Sprintf("%s AUDIT: id=%q stage=%q ip=%q method=%q user=%q groups=%q as=%q asgroups=%q user-agent=%q namespace=%q uri=%q response=%q\n",
		e.RequestReceivedTimestamp.Format(time.RFC3339Nano), e.AuditID, e.Stage, address, e.Verb, cmp.Or(e.User.Username, "<none>"), groups, as, asGroups,
		e.UserAgent, namespace, e.RequestURI, response)
}

func quoted(names []string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = strconv.Quote(name)
	}
	return strings.Join(parts, ",")
}
