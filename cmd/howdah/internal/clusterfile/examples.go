package clusterfile

// Placeholders of what nobody can fill in for the user.
const (
	exampleToken    = "abcdef.0123456789abcdef"
	exampleDatabase = "postgres://howdah:PASSWORD@192.0.2.5/howdah"
	exampleAddress  = "192.0.2.10"
	exampleName     = "machine"
	examplePin      = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
)

// InitDefaults are documents for howdah init, with placeholders.
func InitDefaults() (InitConfiguration, ClusterConfiguration) {
	var i InitConfiguration
	i.BootstrapTokens = []BootstrapToken{{Token: exampleToken}}
	i.Complete(Host{Name: exampleName, Address: exampleAddress})
	c := ClusterConfiguration{Database: Database{URL: exampleDatabase}}
	c.Complete()
	return i, c
}

// JoinDefaults is a document for howdah join, with placeholders.
func JoinDefaults() JoinConfiguration {
	var c JoinConfiguration
	c.Discovery.BootstrapToken = &TokenDiscovery{APIServerEndpoint: exampleAddress + ":6443", Token: exampleToken, CACertHashes: []string{examplePin}}
	c.Complete(Host{Name: exampleName, Address: exampleAddress})
	return c
}
