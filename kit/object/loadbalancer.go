package object

// LoadBalancerNodeAnnotation of a Service of the type LoadBalancer names the node that answers, on the nodes' network, for the Service's addresses. The
// controllers write it, and the node agents read it.
const LoadBalancerNodeAnnotation = "howdah.dev/load-balancer-node"
