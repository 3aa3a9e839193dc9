package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"howdah.dev/kit/release"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "howdah (Kubernetes %s, %s, %s/%s)\n", release.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
