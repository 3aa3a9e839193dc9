package main

import (
	"github.com/spf13/pflag"

	"howdah.dev/services/apiserver"
)

// protectionFlags are the settings by which an apiserver keeps its data to itself and its callers within bounds.
type protectionFlags struct {
	encryptionConfig string
	encryptionReload bool
}

func (p *protectionFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&p.encryptionConfig, "encryption-provider-config", "", "EncryptionConfiguration that says what is encrypted in the database, and how; empty encrypts nothing")
	f.BoolVar(&p.encryptionReload, "encryption-provider-config-automatic-reload", true, "take over changes of the EncryptionConfiguration without a restart")
}

func (p *protectionFlags) apply(cfg *apiserver.Config) {
	cfg.EncryptionConfig, cfg.EncryptionReload = p.encryptionConfig, p.encryptionReload
}
