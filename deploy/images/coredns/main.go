// Command coredns is CoreDNS, unmodified, with only the plugins that a cluster's DNS needs (the full set takes
// three times as long to build), and its Corefile from a ConfigMap.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/acl"
	_ "github.com/coredns/coredns/plugin/autopath"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/debug"
	_ "github.com/coredns/coredns/plugin/dns64"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/file"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/template"
)

// directives is the order in which a query passes the plugins, as CoreDNS's plugin.cfg has it.
var directives = []string{
	"reload", "debug", "bind", "ready", "health", "prometheus", "errors", "log", "dns64", "acl",
	"cache", "rewrite", "autopath", "template", "loadbalance", "hosts", "kubernetes", "file", "loop", "forward",
}

func main() {
	dnsserver.Directives = directives
	configMap := flag.String("configmap", "", "namespace/name of a ConfigMap whose Corefile takes the place of -original in the file of -conf; empty follows none")
	kubeconfig := flag.String("kubeconfig", "/pki/kubeconfig", "how the API is reached for -configmap")
	original := flag.String("original", "/etc/coredns/Corefile", "what the ConfigMap is made of")
	flag.Parse()
	if *configMap != "" {
		s, err := newSource(*kubeconfig, *configMap, flag.Lookup("conf").Value.String(), *original)
		if err != nil {
			fmt.Fprintln(os.Stderr, "coredns:", err)
			os.Exit(1)
		}
		go s.run(context.Background()) // ends with the process
	}
	coremain.Run()
}
