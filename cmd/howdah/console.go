package main

import (
	"github.com/spf13/pflag"

	"howdah.dev/gateway"
)

// consoleFlags are the settings of the web console, of gateways and the standalone.
type consoleFlags struct {
	serve    bool
	traceURL string
}

func (c *consoleFlags) flags(f *pflag.FlagSet) {
	f.BoolVar(&c.serve, "console", true, "serve the web console at /console/")
	f.StringVar(&c.traceURL, "console-trace-url", "", "URL of a trace for the console's links, as http://127.0.0.1:16686/trace/{traceID}; empty shows no links")
}

func (c *consoleFlags) config() *gateway.Console {
	if !c.serve {
		return nil
	}
	return &gateway.Console{TraceURL: c.traceURL}
}
