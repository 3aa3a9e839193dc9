package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"howdah.dev/cmd/howdah/internal/past"
)

func transactionCommand() *cobra.Command {
	var a access
	var files []string
	var operation, dryRun, manager, output string
	var force bool
	cmd := &cobra.Command{
		Use: "transaction -f FILE...", Short: "Apply manifests in one transaction: all of them or none", Args: cobra.NoArgs,
		Example: "  howdah transaction -f shop/\n  howdah transaction -f old.yaml --operation delete\n  kubectl kustomize overlay | howdah transaction -f - --dry-run",
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := manifests(cmd.InOrStdin(), files)
			if err != nil {
				return err
			}
			client, namespace, err := restClient(a.kubeconfig, a.namespace)
			if err != nil {
				return err
			}
			request := client.Post().AbsPath("/howdah/v1/transactions").Body(body).SetHeader("Content-Type", "application/yaml").
				Param("operation", operation).Param("namespace", namespace).Param("fieldManager", manager)
			switch dryRun {
			case "none":
			case "server":
				request.Param("dryRun", "All")
			default:
				return fmt.Errorf("--dry-run is none or server, not %q", dryRun)
			}
			if force {
				request.Param("force", "true")
			}
			result := request.Do(cmd.Context())
			if err := result.Error(); err != nil { // with the Status that the gateway sent
				return err
			}
			answer, err := result.Raw()
			if err != nil {
				return err
			}
			return printTransaction(cmd.OutOrStdout(), cmd.ErrOrStderr(), answer, output)
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVarP(&files, "filename", "f", nil, "files and folders with manifests; - is the standard input")
	f.StringVar(&operation, "operation", "apply", "what to do with the manifests: apply, create, update or delete")
	f.StringVar(&dryRun, "dry-run", "none", "server: do everything but the commit")
	f.Lookup("dry-run").NoOptDefVal = "server"
	f.StringVar(&manager, "field-manager", "howdah", "name under which the fields are owned")
	f.BoolVar(&force, "force-conflicts", false, "take fields over from other managers")
	f.StringVarP(&output, "output", "o", "", "json, yaml or name")
	return cmd
}

// manifests reads files, the YAML and JSON files of folders, and - , into one stream of YAML documents.
func manifests(in io.Reader, files []string) ([]byte, error) {
	if len(files) == 0 {
		return nil, errors.New("must specify one of -f: files, folders, or - for the standard input")
	}
	var documents [][]byte
	for _, file := range files {
		if file == "-" {
			text, err := io.ReadAll(in)
			if err != nil {
				return nil, err
			}
			documents = append(documents, text)
			continue
		}
		paths, err := manifestFiles(file)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			documents = append(documents, text)
		}
	}
	return bytes.Join(documents, []byte("\n---\n")), nil
}

// manifestFiles returns a file, or those of a folder in the order of their names.
func manifestFiles(root string) (paths []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (path == root || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))) {
			paths = append(paths, path)
		}
		return err
	})
	return paths, err
}

// printTransaction tells what was done as kubectl tells it.
func printTransaction(out, problems io.Writer, answer []byte, form string) error {
	var result struct {
		DryRun                      bool
		FirstRevision, LastRevision string
		Items                       []struct {
			Resource, Name, Result string
			Warnings               []string
		}
	}
	if err := json.Unmarshal(answer, &result); err != nil {
		return fmt.Errorf("the gateway's answer is no result: %w", err)
	}
	for _, i := range result.Items {
		for _, w := range i.Warnings {
			fmt.Fprintln(problems, "Warning:", w)
		}
	}
	switch form {
	case "json", "yaml":
		return past.Document(out, json.RawMessage(answer), form)
	case "", "name":
	default:
		return fmt.Errorf("unknown output format %q: it is json, yaml or name", form)
	}
	for _, i := range result.Items {
		line := singular(i.Resource) + "/" + i.Name
		if form == "" {
			line += " " + i.Result
		}
		if form == "" && result.DryRun {
			line += " (server dry run)"
		}
		fmt.Fprintln(out, line)
	}
	switch {
	case form == "name":
	case result.LastRevision == "" && !result.DryRun:
		fmt.Fprintln(out, "Nothing was to be changed.")
	case result.LastRevision != "":
		fmt.Fprintf(out, "Committed as revisions %s to %s.\n", result.FirstRevision, result.LastRevision)
	}
	return nil
}

// singular turns "deployments.apps" into "deployment.apps", as kubectl prints names.
func singular(resource string) string {
	name, group, grouped := strings.Cut(resource, ".")
	switch {
	case name == "endpoints":
	case strings.HasSuffix(name, "ies"):
		name = strings.TrimSuffix(name, "ies") + "y"
	case strings.HasSuffix(name, "sses"):
		name = strings.TrimSuffix(name, "es")
	default:
		name = strings.TrimSuffix(name, "s")
	}
	if grouped {
		return name + "." + group
	}
	return name
}
