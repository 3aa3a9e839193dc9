package object

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// AgentPortAnnotation of a Node says where its agent serves the node API, gRPC that only API servers may call. The port in the Node's
// status is that of the HTTPS endpoint, which others expect there.
const AgentPortAnnotation = "howdah.dev/agent-port"

// AgentPort is where a node's agent serves the node API, 0 where it has not told. An agent without an HTTPS endpoint has no annotation:
// the port in its status is that of the node API.
func AgentPort(node *corev1.Node) int32 {
	if n, err := strconv.ParseUint(node.Annotations[AgentPortAnnotation], 10, 16); err == nil {
		return int32(n)
	}
	return node.Status.DaemonEndpoints.KubeletEndpoint.Port
}
