// Command hostpathplugin stands in for csi-driver-host-path in the images of the conformance tests. Kubernetes' tests of dynamic resource allocation
// run their drivers themselves and use of that program only what carries a node's connections to them: each connection to a socket of the node
// is joined to one that the tests have opened to a port of the pod before.
//
//	hostpathplugin --endpoint=/plugins/driver.sock --proxy-endpoint=tcp://:9001
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	endpoint := flag.String("endpoint", "", "socket of the node, a path")
	proxy := flag.String("proxy-endpoint", "", "where the tests connect: tcp://host:port")
	verbosity := flag.Int("v", 0, "5 and more tell of each connection")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	j, err := open(*endpoint, *proxy)
	if err != nil {
		log.Fatal(err)
	}
	if *verbosity >= 5 {
		j.tell = log.Printf
	}
	if err := j.serve(ctx); err != nil {
		log.Fatal(err)
	}
}

// open listens at both ends.
func open(endpoint, proxy string) (joint, error) {
	address, ok := strings.CutPrefix(proxy, "tcp://")
	if endpoint == "" || !ok {
		return joint{}, errors.New("only the proxy mode is here: --endpoint=PATH and --proxy-endpoint=tcp://HOST:PORT are required")
	}
	if err := os.Remove(endpoint); err != nil && !errors.Is(err, os.ErrNotExist) {
		return joint{}, fmt.Errorf("remove the socket of an earlier run: %w", err)
	}
	node, err := net.Listen("unix", endpoint)
	if err != nil {
		return joint{}, err
	}
	tests, err := net.Listen("tcp", address)
	if err != nil {
		node.Close()
		return joint{}, err
	}
	return joint{node: node, tests: tests}, nil
}
