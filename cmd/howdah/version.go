package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// kubernetesVersion is the release whose API howdah speaks.
const kubernetesVersion = "v1.36.3"

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "howdah (Kubernetes %s, %s, %s/%s)\n", kubernetesVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
