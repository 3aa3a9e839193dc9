// Package clusterfile is the documents by which a cluster and its machines are configured: what howdah init and howdah join read, and what the cluster keeps of it.
//
// Their form follows kubeadm's, whose users know it: several documents in a file, one of a kind. What they have is howdah's.
package clusterfile

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Version is the apiVersion of all kinds.
const Version = "howdah.dev/v1"

// Kinds of documents.
const (
	InitKind    = "InitConfiguration"
	ClusterKind = "ClusterConfiguration"
	JoinKind    = "JoinConfiguration"
)

// InitConfiguration is what howdah init is told of the first machine.
type InitConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// BootstrapTokens are made for machines that join; one by chance where none is given.
	BootstrapTokens []BootstrapToken `json:"bootstrapTokens,omitempty"`
	Machine         Machine          `json:"machine,omitempty"`
	LocalEndpoint   LocalEndpoint    `json:"localAPIEndpoint,omitempty"`
	// CertificateKey encrypts what further control planes download, 64 hexadecimal digits; one by chance where it is empty.
	CertificateKey string `json:"certificateKey,omitempty"`
	// SkipPhases are left out.
	SkipPhases []string `json:"skipPhases,omitempty"`
	// Timeout is how long the control plane may take to be ready.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// BootstrapToken is a token by which machines join.
type BootstrapToken struct {
	Token       string           `json:"token,omitempty"`
	Description string           `json:"description,omitempty"`
	TTL         *metav1.Duration `json:"ttl,omitempty"` // 0 is for ever
	Usages      []string         `json:"usages,omitempty"`
	Groups      []string         `json:"groups,omitempty"`
}

// Machine is what howdah is on a machine.
type Machine struct {
	// Name is the control plane's among others, or the node's.
	Name string `json:"name,omitempty"`
	// ServiceManager runs the service: systemd, process, or auto.
	ServiceManager string `json:"serviceManager,omitempty"`
	// Binary is what the service runs; upgrades replace it.
	Binary string `json:"binary,omitempty"`
	// IgnorePreflightErrors are checks whose failure is only told, or all.
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`
}

// LocalEndpoint is where a control plane is reached.
type LocalEndpoint struct {
	// AdvertiseAddress is the machine's address, as others reach it.
	AdvertiseAddress string `json:"advertiseAddress,omitempty"`
	// BindAddress is what is listened on; all addresses where it is empty.
	BindAddress string `json:"bindAddress,omitempty"`
}

// ClusterConfiguration is the same for all machines of a control plane. The cluster keeps it, without the database's URL, in the ConfigMap
// kube-system/howdah-cluster.
type ClusterConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// ControlPlaneEndpoint is a name, or host:port, that leads to the gateways of all control planes. Further ones need it.
	ControlPlaneEndpoint string   `json:"controlPlaneEndpoint,omitempty"`
	Database             Database `json:"database,omitempty"`
	// CertSANs are further names and addresses of the gateways.
	CertSANs   []string   `json:"certSANs,omitempty"`
	Networking Networking `json:"networking,omitempty"`
	Ports      Ports      `json:"ports,omitempty"`
	DNS        DNS        `json:"dns,omitempty"`
	// Settings are flags of howdah standalone, by name, beside those that this configuration is for.
	Settings map[string]string `json:"settings,omitempty"`
	// Version is the release of the newest control plane: howdah init and howdah upgrade write it.
	Version string `json:"version,omitempty"`
}

// Database is where the cluster's state is.
type Database struct {
	URL string `json:"url,omitempty"`
}

// Networking is the cluster's addresses.
type Networking struct {
	ServiceSubnets []string `json:"serviceSubnets,omitempty"`
	PodSubnet      string   `json:"podSubnet,omitempty"`
	DNSDomain      string   `json:"dnsDomain,omitempty"`
}

// Ports are those of all control planes.
type Ports struct {
	API   int32 `json:"api,omitempty"`   // of gateways
	Nodes int32 `json:"nodes,omitempty"` // of API servers, for node agents
}

// DNS is the cluster's name server, which runs beside the control plane.
type DNS struct {
	// Address of the server; without one there is no Service kube-dns, and pods have no names.
	Address string `json:"address,omitempty"`
	// ClusterIP of the Service kube-dns; the tenth address of the first service subnet where it is empty.
	ClusterIP string `json:"clusterIP,omitempty"`
}

// JoinConfiguration is what howdah join is told.
type JoinConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	Discovery Discovery `json:"discovery,omitempty"`
	Machine   Machine   `json:"machine,omitempty"`
	Node      *Node     `json:"node,omitempty"`
	// ControlPlane makes the machine a further control plane, and no node.
	ControlPlane *ControlPlane    `json:"controlPlane,omitempty"`
	Timeout      *metav1.Duration `json:"timeout,omitempty"`
}

// Discovery says which cluster is meant.
type Discovery struct {
	BootstrapToken *TokenDiscovery  `json:"bootstrapToken,omitempty"`
	File           *FileDiscovery   `json:"file,omitempty"`
	Timeout        *metav1.Duration `json:"timeout,omitempty"`
}

// TokenDiscovery believes what a token has signed.
type TokenDiscovery struct {
	APIServerEndpoint        string   `json:"apiServerEndpoint,omitempty"` // host:port of a gateway
	Token                    string   `json:"token,omitempty"`
	CACertHashes             []string `json:"caCertHashes,omitempty"`
	UnsafeSkipCAVerification bool     `json:"unsafeSkipCAVerification,omitempty"`
}

// FileDiscovery believes a kubeconfig.
type FileDiscovery struct {
	KubeConfigPath string `json:"kubeConfigPath,omitempty"`
	Token          string `json:"token,omitempty"` // by which the certificate is asked for
}

// Node is what a machine is as a node.
type Node struct {
	IP     string `json:"ip,omitempty"`     // or one of each family, with a comma
	CRI    string `json:"cri,omitempty"`    // socket of the container runtime
	Folder string `json:"folder,omitempty"` // of the certificate and the settings
}

// ControlPlane is what a machine is as a further control plane.
type ControlPlane struct {
	LocalEndpoint  LocalEndpoint `json:"localAPIEndpoint,omitempty"`
	CertificateKey string        `json:"certificateKey,omitempty"`
	// DatabaseURL is for where the keys were copied by hand, or where this machine reaches the database otherwise than the first.
	DatabaseURL string `json:"databaseURL,omitempty"`
}
