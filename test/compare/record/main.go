// Command record asks the apiserver of $KUBECONFIG what the cases of test/compare ask, and writes its answers beside them.
// `make compare` runs it against Kubernetes' own apiserver.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"

	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/test/compare"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir := flag.String("cases", "compare/cases", "folder of the cases")
	only := flag.String("only", ".", "pattern of the cases' names")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	server, err := compare.NewServer(config)
	if err != nil {
		return err
	}
	cases, err := compare.ReadCases(*dir)
	if err != nil {
		return err
	}
	for _, c := range cases {
		if !wanted.MatchString(c.Name) {
			continue
		}
		answers, err := server.Replay(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		if err := c.Record(answers); err != nil {
			return err
		}
		fmt.Println(c.Name)
	}
	return nil
}
