package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/cmd/howdah/internal/initialize"
	"howdah.dev/cmd/howdah/internal/join"
	"howdah.dev/nodeagent"
)

// resetFlags are those of howdah reset.
type resetFlags struct {
	node, cri, dir, manager string
	force, dryRun           bool
}

func resetCommand() *cobra.Command {
	var r resetFlags
	cmd := &cobra.Command{
		Use: "reset", Short: "Take away what howdah init or howdah join has made of this machine, and the pods that run on it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&r.node, "tls-dir", nodeFolder, "folder that howdah join has filled")
	f.StringVar(&r.cri, "cri", criSocket, "socket of the container runtime, whose pods are removed; empty leaves them")
	folderFlag(f, &r.dir)
	f.StringVar(&r.manager, "service-manager", clusterfile.AutoServices, "what runs the node agent: systemd, process, or auto")
	f.BoolVarP(&r.force, "force", "f", false, "do not ask whether it is meant")
	f.BoolVar(&r.dryRun, "dry-run", false, "say what would be taken away, and leave it")
	return cmd
}

func (r resetFlags) run(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	dir, err := absolute(r.dir)
	if err != nil {
		return err
	}
	folder := initialize.Folder(dir)
	files, control := join.Files(r.node), folder.There()
	if len(files) == 0 && !control {
		fmt.Fprintf(out, "Nothing of howdah join is in %s, and no control plane in %s.\n", r.node, dir)
	}
	asNode := len(files) > 0 || !control
	if r.dryRun {
		r.tell(out, files, asNode)
		if control {
			initialize.TellReset(out, folder)
		}
		return nil
	}
	if !r.force {
		question := "This takes the node's certificate and all its pods away."
		if control {
			question = "This takes the control plane of this machine away, with its certificates and keys; if it is the last, nobody can reach the cluster any more."
		}
		fmt.Fprint(out, question+" Are you sure? [y/N]: ")
		if err := confirmed(cmd.InOrStdin()); err != nil {
			return err
		}
	}
	if asNode {
		if err := r.resetNode(cmd.Context(), out); err != nil {
			return err
		}
	}
	if !control {
		return nil
	}
	e, err := loadEnv(out, folder)
	if err != nil {
		return err
	}
	return initialize.Reset(cmd.Context(), e)
}

func (r resetFlags) tell(out io.Writer, files []string, asNode bool) {
	if asNode && r.cri != "" {
		fmt.Fprintf(out, "Would stop and remove all pods of %s.\n", r.cri)
	}
	for _, file := range files {
		fmt.Fprintln(out, "would remove", file)
	}
}

func (r resetFlags) resetNode(ctx context.Context, out io.Writer) error {
	services, _ := servicesOf(r.manager, r.dir)
	if err := services.Remove(ctx, daemon.NodeAgent); err != nil {
		return fmt.Errorf("end the node agent: %w", err)
	}
	for _, check := range portChecks() {
		if err := check.Run(ctx); err != nil {
			return fmt.Errorf("stop the node agent first: %w", err)
		}
	}
	pods, err := nodeagent.Traces{RuntimeEndpoint: r.cri}.Clear(ctx)
	if pods > 0 {
		fmt.Fprintln(out, "removed pods:", pods)
	}
	if err != nil {
		return fmt.Errorf("%w (with --cri= the pods are left)", err)
	}
	if err := join.Forget(r.node, out); err != nil {
		return err
	}
	fmt.Fprint(out, "\nLeft as they are: the Node in the cluster (kubectl delete node), volumes in /var/lib/howdah and /var/lib/kubelet, logs, images, and routes until the next start.\n")
	return nil
}
