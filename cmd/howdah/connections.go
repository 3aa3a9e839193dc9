package main

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"howdah.dev/gateway"
)

// connectionsFlags say what clients are told of their connections, as kube-apiserver's do.
type connectionsFlags struct {
	strict []string
	goaway float64
}

func (c *connectionsFlags) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&c.strict, "strict-transport-security-directives", nil, "directives of the header Strict-Transport-Security, as max-age=31536000,includeSubDomains,preload; without any, it is not sent")
	f.Float64Var(&c.goaway, "goaway-chance", 0, "share of requests over HTTP/2 after which the client is asked to connect anew, so that clients spread over gateways behind a load balancer; 0 to 0.02")
}

func (c *connectionsFlags) config() (gateway.Connections, error) {
	var problems []error
	if c.goaway < 0 || c.goaway > 0.02 {
		problems = append(problems, errors.New("--goaway-chance can not be less than 0 or greater than 0.02"))
	}
	for _, directive := range c.strict {
		if d := strings.TrimSpace(directive); !strings.HasPrefix(d, "max-age=") && d != "includeSubDomains" && d != "preload" {
			problems = append(problems, errors.New("--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. "+
				"see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"))
			break
		}
	}
	return gateway.Connections{StrictTransportSecurity: c.strict, GoawayChance: c.goaway}, errors.Join(problems...)
}
