package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"howdah.dev/cmd/howdah/internal/initialize"
	"howdah.dev/kit/config"
	"howdah.dev/kit/pki"
)

func certsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "certs", Short: "Tell until when certificates last, and renew them", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return cmd.Help()
	}}
	var dir string
	cmd.PersistentFlags().StringVar(&dir, "dir", "", "folder that howdah pki has made, or a role's or node's in it; check-expiration reads that of howdah join, too; default pki or, where there is none, that of howdah init")
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := config.FromEnvironment(cmd.Flags()); err != nil {
			return err
		}
		if dir == "" {
			dir = certsFolder("pki", initialize.Folder(controlFolder).PKI())
		}
		return nil
	}
	cmd.AddCommand(certsCheckCommand(&dir), certsRenewCommand(&dir), certsAuthorityCommand(&dir))
	return cmd
}

// certsFolder is the first of folders that is there, or the first of all.
func certsFolder(folders ...string) string {
	for _, dir := range folders {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return folders[0]
}

func certsCheckCommand(dir *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "check-expiration", Short: "Tell until when certificates last", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			entries, err := pki.List(*dir)
			if len(entries) == 0 && err != nil {
				return err
			}
			return errors.Join(printExpiration(cmd.OutOrStdout(), output, entries, time.Now()), err)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or yaml")
	return cmd
}

// expiration is a certificate in what is printed.
type expiration struct {
	Name            string      `json:"name"`
	ExpirationDate  metav1.Time `json:"expirationDate"`
	ResidualSeconds int64       `json:"residualTimeSeconds"`
	CAName          string      `json:"caName,omitempty"`
}

func expirationOf(e pki.Entry, now time.Time) expiration {
	x := expiration{Name: e.Role, ExpirationDate: metav1.Time{Time: e.Certificate.NotAfter}, ResidualSeconds: int64(e.Certificate.NotAfter.Sub(now).Seconds())}
	if e.Authority != nil {
		x.CAName = e.Authority.Subject.CommonName
	}
	return x
}

func printExpiration(out io.Writer, output string, entries []pki.Entry, now time.Time) error {
	var of struct {
		Certificates           []expiration `json:"certificates"`
		CertificateAuthorities []expiration `json:"certificateAuthorities,omitempty"`
	}
	for _, e := range entries {
		if e.Root {
			of.CertificateAuthorities = append(of.CertificateAuthorities, expirationOf(e, now))
		} else {
			of.Certificates = append(of.Certificates, expirationOf(e, now))
		}
	}
	switch output {
	case "json", "yaml":
		data, err := json.MarshalIndent(of, "", "    ")
		if err == nil && output == "yaml" {
			data, err = yaml.Marshal(of)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, strings.TrimSuffix(string(data), "\n"))
		return err
	case "text":
	default:
		return fmt.Errorf("--output: %q is none of text, json, yaml", output)
	}
	w := tabwriter.NewWriter(out, 10, 4, 3, ' ', 0)
	fmt.Fprintln(w, "CERTIFICATE\tEXPIRES\tRESIDUAL TIME\tCERTIFICATE AUTHORITY")
	for _, x := range of.Certificates {
		ca := x.CAName
		if ca == "" {
			ca = "<another>"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", x.Name, date(x), residual(x), ca)
	}
	if len(of.CertificateAuthorities) > 0 {
		fmt.Fprintln(w, "\nCERTIFICATE AUTHORITY\tEXPIRES\tRESIDUAL TIME\t")
	}
	for _, x := range of.CertificateAuthorities {
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", x.Name, date(x), residual(x))
	}
	return w.Flush()
}

func date(x expiration) string { return x.ExpirationDate.UTC().Format("Jan 02, 2006 15:04 MST") }

func residual(x expiration) string {
	if x.ResidualSeconds <= 0 {
		return "<expired>"
	}
	return duration.ShortHumanDuration(time.Duration(x.ResidualSeconds) * time.Second)
}

func certsRenewCommand(dir *string) *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use: "renew all|ROLE...", Short: "Replace certificates and keys, though they may last for long", Args: cobra.MinimumNArgs(1),
		Example: "  howdah certs renew all --dir pki\n  howdah certs renew gateway node1 --dir pki",
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "all") {
				if len(args) > 1 {
					return errors.New("all is all: name nothing beside it")
				}
				args = nil
			}
			renewed, err := pki.Renew(*dir, args, time.Now())
			printRenewed(cmd, renewed)
			if err != nil {
				return err
			}
			if slices.Contains(renewed, "admin") {
				if err := adminChanged(cmd, *dir, kubeconfig); err != nil {
					return err
				}
			}
			fmt.Fprintln(cmd.OutOrStdout(), takenWhen)
			return nil
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "where to put the administrator's kubeconfig as well, if it is renewed")
	return cmd
}

// takenWhen tells when certificates that were made anew count.
const takenWhen = "roles take the new ones within a minute, PostgreSQL by a reload, the DNS server by a restart"

func printRenewed(cmd *cobra.Command, roles []string) {
	for _, role := range roles {
		fmt.Fprintf(cmd.OutOrStdout(), "certificate of %s renewed\n", role)
	}
}

// adminChanged writes the administrator's kubeconfig to where it is copied to: a file, if one is named, and the folder of howdah init, if it is its.
func adminChanged(cmd *cobra.Command, dir, kubeconfig string) error {
	if kubeconfig != "" {
		if err := copyKey(filepath.Join(dir, "admin", "kubeconfig"), kubeconfig, ownerOfParent(dir)); err != nil {
			return err
		}
	}
	dir, err := absolute(dir)
	if err != nil {
		return err
	}
	folder := initialize.Folder(filepath.Dir(dir))
	if !folder.There() || folder.PKI() != dir {
		return nil
	}
	e, err := loadEnv(cmd.OutOrStdout(), folder)
	if err != nil {
		return err
	}
	return initialize.Run(cmd.Context(), e, []initialize.Phase{initialize.Kubeconfig()}, nil)
}
