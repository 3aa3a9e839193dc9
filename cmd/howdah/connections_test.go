package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestConnectionsFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, err string }{
		{"", ""},
		{"--goaway-chance=0.02 --strict-transport-security-directives=max-age=1,includeSubDomains,preload", ""},
		{"--goaway-chance=0.03", "--goaway-chance can not be less than 0 or greater than 0.02"},
		{"--goaway-chance=-1", "--goaway-chance can not be less than 0 or greater than 0.02"},
		{"--strict-transport-security-directives=max-age=1,all", "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. " +
			"see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"},
	} {
		var c connectionsFlags
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.flags(set)
		if err := set.Parse(strings.Fields(tt.args)); err != nil {
			t.Fatal(err)
		}
		got, err := c.config()
		if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s: %v", tt.args, err)
		}
		if err == nil && tt.args != "" && (got.GoawayChance != 0.02 || !slices.Equal(got.StrictTransportSecurity, []string{"max-age=1", "includeSubDomains", "preload"})) {
			t.Errorf("%s: %+v", tt.args, got)
		}
	}
}
