package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/initialize"
	"howdah.dev/cmd/howdah/internal/join"
	"howdah.dev/cmd/howdah/internal/upgrade"
	"howdah.dev/kit/config"
	"howdah.dev/kit/object"
	"howdah.dev/kit/release"
	"howdah.dev/kit/rpc"
	"howdah.dev/migrations"
)

func upgradeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "upgrade", Short: "Bring a cluster to the release of this program, a machine after the other", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var dir string
	folderFlag(cmd.PersistentFlags(), &dir)
	cmd.AddCommand(upgradePlanCommand(&dir), upgradeApplyCommand(&dir), upgradeNodeCommand(&dir))
	return cmd
}

// controlPlaneHere is that of this machine.
func controlPlaneHere(cmd *cobra.Command, dir string) (*initialize.Env, error) {
	dir, err := absolute(dir)
	if err != nil {
		return nil, err
	}
	if !initialize.Folder(dir).There() {
		return nil, fmt.Errorf("%s has no control plane of howdah init or howdah join --control-plane (--dir)", dir)
	}
	return loadEnv(cmd.OutOrStdout(), initialize.Folder(dir))
}

func upgradePlanCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "plan", Short: "Tell the releases of control planes and nodes, and what an upgrade to that of this program does", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := controlPlaneHere(cmd, *dir)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), tokenTimeout)
			defer cancel()
			s, p, err := upgrade.Here(ctx, e)
			if err != nil {
				return err
			}
			return upgrade.Print(cmd.OutOrStdout(), s, p)
		},
	}
}

func upgradeApplyCommand(dir *string) *cobra.Command {
	var yes, dryRun bool
	var backup string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "apply [VERSION]", Short: "Upgrade the schema and this machine's control plane, the first of the cluster", Args: cobra.MaximumNArgs(1),
		Example: "  ./howdah upgrade plan && ./howdah upgrade apply --backup /var/backups/howdah.dump",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] != release.Version() {
				return fmt.Errorf("this program is of %s: run that of %s", release.Version(), args[0])
			}
			e, err := controlPlaneHere(cmd, *dir)
			if err != nil {
				return err
			}
			e.Init.Timeout.Duration = timeout
			a := upgrade.Applying{
				Env: e, DryRun: dryRun, Out: cmd.OutOrStdout(),
				Migrate: func(ctx context.Context) error { return migrations.Apply(ctx, e.Cluster.Database.URL) },
				Confirm: func() error {
					if yes {
						return nil
					}
					fmt.Fprint(cmd.OutOrStdout(), "Are you sure you want to proceed? [y/N]: ")
					return confirmed(cmd.InOrStdin())
				},
			}
			if backup != "" {
				a.Database = func(ctx context.Context) error {
					return upgrade.Backup(ctx, e.Cluster.Database.URL, backup, cmd.OutOrStdout())
				}
			}
			return upgrade.Apply(cmd.Context(), a)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&yes, "yes", "y", false, "do not ask whether it is meant")
	f.BoolVar(&dryRun, "dry-run", false, "only tell what would be done")
	f.StringVar(&backup, "backup", "", "file to which pg_dump backs the database up first; it must not be there")
	f.DurationVar(&timeout, "timeout", clusterfile.ReadyTimeout, "how long the control plane may take to be ready, before the binary that was there is put back")
	return cmd
}

func upgradeNodeCommand(dir *string) *cobra.Command {
	var folder, binary, manager string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "node", Short: "Upgrade this machine's control plane and node agent, after howdah upgrade apply on another one", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := upgrade.Machine{Release: release.Version(), DryRun: dryRun, Out: cmd.OutOrStdout()}
			if at, err := absolute(*dir); err != nil {
				return err
			} else if initialize.Folder(at).There() {
				if m.Env, err = controlPlaneHere(cmd, *dir); err != nil {
					return err
				}
			}
			agent, finish, err := agentHere(folder, *dir, binary, manager)
			if err != nil {
				return err
			}
			defer finish()
			m.Agent = agent
			return m.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&folder, "tls-dir", nodeFolder, "folder of this machine's node, which howdah join has filled")
	f.StringVar(&binary, "binary", clusterfile.Binary, "where the node agent's service has this program")
	f.StringVar(&manager, "service-manager", clusterfile.AutoServices, "what runs the node agent: systemd, process, or auto")
	f.BoolVar(&dryRun, "dry-run", false, "only tell what would be done")
	return cmd
}

// agentHere is the node agent of this machine; nil where it is no node.
func agentHere(folder, dir, binary, manager string) (*upgrade.Agent, func(), error) {
	data, err := os.ReadFile(filepath.Join(folder, join.SettingsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, func() {}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	settings, err := config.ParseFile(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Join(folder, join.SettingsFile), err)
	}
	identity, err := rpc.LoadIdentity(folder)
	if err != nil {
		return nil, nil, err
	}
	conn, err := rpc.Dial(settings[config.Variable("apiserver")], identity.Client("apiserver"))
	if err != nil {
		return nil, nil, err
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	client := object.NewClient(conn, "howdah-upgrade")
	services, _ := servicesOf(manager, dir)
	return &upgrade.Agent{
		Services: services, Executable: executable, Binary: binary,
		Reading: upgrade.Reading{Client: client, Release: release.Version(), Now: time.Now()},
	}, func() { _ = conn.Close() }, nil
}
