// Package clients runs clients that others wrote, unmodified, against a standalone howdah with simulated nodes: kubectl
// through its command groups, Helm 3 and 4, an operator on controller-runtime, metrics-server as an extension API server,
// client-go's informers whose connections are cut, and what else operators take from client-go.
package clients
